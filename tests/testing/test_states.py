import pytest

from cdk import Checkpoint, Done, Json, Partition, Source, Stream
from cdk.state.manager import ConnectorStateManager
from cdk.state.stream_state import StreamState
from cdk.testing import at, done, each, read, state, state_differences
from tests.samples import Comments, Events, Notes, Orders, ShopOrders, Users, moment


@pytest.mark.parametrize(
    ("stream", "value"),
    [
        (Users(), at(page=3)),
        (Users(), done()),
        (Notes(), at(page=1)),
        (Orders(), at(updated_at=moment(48))),
        (Comments(), each(({"user": 0}, None), ({"user": 1}, {"page": 2}))),
        (ShopOrders(), each(({"shop": "a"}, {"updated_at": moment(5)}))),
    ],
)
def test_a_state_reaches_the_stream_as_it_was_said(stream: Stream, value: StreamState) -> None:
    assert ConnectorStateManager(state(**{stream.name: value})).restore(stream) == value


def test_the_words_stand_for_positions() -> None:
    whole = Partition()

    assert at(page=3).positions == {whole: Checkpoint({"page": 3})}
    assert done().positions == {whole: Done()}
    assert each(({"a": 1}, None), ({"a": 2}, {"page": 1})).positions == {
        Partition.of(a=1): Done(),
        Partition.of(a=2): Checkpoint({"page": 1}),
    }


def test_a_read_goes_on_from_a_page() -> None:
    assert read(Users(), state=state(users=at(page=3))).records == [
        {"id": 10 * n + i} for n in (3, 4) for i in range(3)
    ]


def test_a_read_that_was_finished_reads_nothing() -> None:
    run = read(Users(), state=state(users=done()))

    assert (run.records, run.statuses) == ([], ["STARTED", "COMPLETE"])


def test_a_read_goes_on_from_a_cursor() -> None:
    records = read(Orders(), state=state(orders=at(updated_at=moment(90)))).records

    assert [record["id"] for record in records] == list(range(15, 21))
    assert records[0]["updated_at"] == moment(90)


def test_each_partition_goes_on_from_where_it_was() -> None:
    value = each(
        *(({"user": n * 10 + i}, None) for n in range(5) for i in range(3) if n or i), ({"user": 0}, {"page": 2})
    )

    assert read(Comments(), state=state(comments=value)).records == [{"user": 0, "id": 20}, {"user": 0, "id": 21}]


def test_states_of_several_streams_do_not_mix() -> None:
    messages = state(users=at(page=4), events=at(seq=9))

    assert len(read(Users(), state=messages).records) == 3
    assert {record["seq"] for record in read(Events(), state=messages).records} == {9}


def test_a_state_of_no_stream_fails_the_test_with_the_nearest_name() -> None:
    class Two(Source):
        stream_classes = (Users, Events)

    class Abroad(Users):
        name = "users"
        namespace = "eu"

    with pytest.raises(AssertionError, match="no stream 'uesrs'; did you mean 'users'"):
        read(Users(), state=state(uesrs=at(page=4)))
    with pytest.raises(AssertionError, match=r"no stream 'uesrs'; did you mean 'users'\? nor 'evnts'; did you"):
        read(Two(), "users", state=state(uesrs=at(page=4), evnts=at(seq=9)))
    with pytest.raises(AssertionError, match="no stream 'orders'; there is 'events', 'users'; correct"):
        read(Two(), state=state(users=at(page=4), orders=at(page=4)))
    with pytest.raises(AssertionError, match=r"no stream 'users'; there is 'eu\.users', whose state is an"):
        read(Abroad(), state=state(users=at(page=4)))
    assert len(read(Two(), "users", state=state(users=at(page=4), events=at(seq=9))).records) == 3


def test_a_state_may_be_in_any_form_of_the_wire() -> None:
    shared: dict[str, Json] = {"use_global_cursor": True, "state": {"updated_at": moment(90)}}

    assert read(Orders(), state=state(orders={"updated_at": moment(90)})).records[0]["id"] == 15
    assert [message.stream and message.stream.stream_state for message in state(orders=shared)] == [shared]


def test_each_value_that_differs_has_a_line_of_its_own() -> None:
    before = state(users=at(page=2), posts=each(({"user": 1}, {"written_at": "a"}), ({"user": 2}, {"written_at": "b"})))
    after = state(users=at(page=3), posts=each(({"user": 1}, {"written_at": "a"}), ({"user": 3}, {"written_at": "b"})))

    assert state_differences(before, before) == []
    assert state_differences(before, after) == [
        "users page: 2 -> 3",
        'posts {"user":2} written_at: "b" -> nothing',
        'posts {"user":3} written_at: nothing -> "b"',
    ]
