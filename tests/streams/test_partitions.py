"""Partitions from lists, products, and the records of a parent."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from cdk import (
    ConfigError,
    Done,
    FatalError,
    Item,
    Page,
    ParentState,
    Partition,
    Slice,
    StreamState,
    following_partitions,
    list_partitions,
    parent_partitions,
    records_of,
)
from cdk import product as every_combination
from cdk.base.secret_masking import SecretMarks
from cdk.base.values import Json, as_object, canonical, from_json
from cdk.state.slice import WHOLE
from cdk.testing import read, state
from tests.samples import PAGE, Orders, Plain, ShopOrders, Sparse, Users, moment


@pytest.mark.parametrize("fields", [["name"], ("a", "b"), None, 5, {"name": "id"}])
def test_a_field_that_is_named_by_no_string_is_refused(fields: Any) -> None:
    words = rf"fields={re.escape(repr(fields))}: expected the name of a field .* `slice.partition.extra`"
    with pytest.raises(ConfigError, match=words):
        parent_partitions(Users(), user="id", fields=fields)


@pytest.mark.parametrize(("parent", "shown"), [(Users, "the class Users"), ("users", "a str"), (None, "None")])
def test_a_parent_that_is_no_stream_is_refused(parent: Any, shown: str) -> None:
    with pytest.raises(ConfigError, match=f"found {shown}, expected a stream: `Users"):
        list(records_of(parent))
    with pytest.raises(ConfigError, match=f"found {shown}, expected a stream: `Users"):
        list(parent_partitions(parent, user="id"))


def test_a_list_gives_a_partition_per_value() -> None:
    assert list(list_partitions("region", ["eu", 1])) == [Partition.of(region="eu"), Partition.of(region=1)]


def test_a_product_gives_every_combination_the_last_varying_fastest() -> None:
    both = every_combination(list_partitions("a", [1, 2]), [Partition({"b": b}, extra={"x": b}) for b in "yz"])

    assert [(dict(p), p.extra) for p in both] == [
        ({"a": a, "b": b}, {"x": b}) for a, b in [(1, "y"), (1, "z"), (2, "y"), (2, "z")]
    ]


def test_a_product_over_one_field_twice_is_refused() -> None:
    with pytest.raises(FatalError, match=r"found 'a' in two families, expected different fields in each"):
        list(every_combination(list_partitions("a", [1]), list_partitions("a", [2])))


def test_the_records_of_a_parent_are_read_here_and_now() -> None:
    assert list(records_of(Plain())) == [{"id": i} for i in range(7)]


def test_each_record_of_a_parent_is_a_partition_that_brings_the_record_along() -> None:
    partitions = list(parent_partitions(Users(), user="id"))

    assert len(partitions) == 5 * PAGE
    assert (partitions[1], partitions[1].extra) == (Partition.of(user=1), {"id": 1})


@pytest.mark.parametrize(
    ("field", "hint"), [("idd", "; did you mean 'id'[?]"), ("key", "; there is 'id'")], ids=["near", "far"]
)
def test_a_field_that_a_parents_record_lacks_is_named_with_what_there_is(field: str, hint: str) -> None:
    with pytest.raises(FatalError, match=f"found no field '{field}' in a record of 'users', .*{hint}$") as caught:
        list(parent_partitions(Users(), user=field))

    assert caught.value.stream == "users"


def test_what_a_page_of_a_parent_warns_of_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    class Dated(Orders):
        def read_records(self, slice: Slice) -> Iterator[Item]:  # noqa: ARG002
            yield Page([{"id": 1, "updated_at": "soon"}], {"page": 2})
            yield Page([{"id": 2, "updated_at": "later"}], None)

    assert {partition["order"] for partition in parent_partitions(Dated(), order="id")} == {1, 2}
    assert caplog.text.count("the first has 'soon'") == 1
    assert "later" not in caplog.text


def test_the_partition_of_a_parent_is_part_of_its_childrens() -> None:
    assert next(parent_partitions(ShopOrders(), order="id")) == Partition.of(shop="a", order=0)


def test_following_a_parent_gives_its_children_before_the_progress_that_brought_them() -> None:
    items = list(following_partitions(Sparse(), {}, order="id"))
    last = items[-1]

    assert [p["order"] for p in items if isinstance(p, Partition)] == [1, 3, 0, 2]
    assert isinstance(last, ParentState)
    assert (last.name, isinstance(last.state.of(WHOLE), Done)) == ("sparse", False)

    again = list(following_partitions(Sparse(), {last.name: last.state}, order="id"))
    assert {p.extra["updated_at"] for p in again if isinstance(p, Partition)} == {moment(90)}


def test_a_field_of_a_partition_may_be_called_parent() -> None:
    assert next(iter(parent_partitions(Users(), parent="id"))) == Partition.of(parent=0)


SECRET, NUMBER = "hunter2-hunter2", 12345678


class Accounts(Orders):
    """Orders of accounts whose ids the connector marks as secret."""

    def __init__(self, ids: Sequence[Json]) -> None:
        super().__init__()
        self.ids = ids
        self.guard(SecretMarks([("account.id", SECRET), ("account.number", str(NUMBER)), ("pin", "1234")]))

    def partitions(self) -> Iterable[Partition]:
        return [Partition({"account": value}, extra={"id": value}) for value in self.ids]

    def read_records(self, slice: Slice) -> Iterator[Item]:
        assert slice.partition["account"] == slice.extra["id"]
        yield from super().read_records(slice)


@pytest.mark.parametrize(
    "secret",
    [
        SECRET,
        f"https://api.example.com/accounts/{SECRET}/orders",
        {"parent_slice": {"id": SECRET, "number": NUMBER}},
        [1, f"{SECRET}?"],
        NUMBER,
    ],
    ids=["itself", "in an address", "in the partition of a parent", "in a list", "a number"],
)
def test_a_secret_that_identifies_a_partition_is_in_no_state(secret: Json) -> None:
    stream = Accounts(["other-1234", secret])

    first = read(stream)
    again = read(stream, state=first.state_messages)

    assert first.error is None
    assert [record["account"] for record in first.records] == [r["account"] for r in read(Accounts(stream.ids)).records]
    assert {canonical(record["account"]) for record in first.records} == {canonical(each) for each in stream.ids}
    states = canonical(first.states)
    assert SECRET not in states
    assert str(NUMBER) not in states
    assert "<secret account.number number>" in states if secret == NUMBER else "<secret account.id plain>" in states
    assert first.states[-1]["states"][0]["partition"]["account"] == "other-1234"
    assert (again.states[-1], again.error) == (first.states[-1], None)
    assert len(again.records) < len(first.records)


def test_a_state_of_another_program_with_the_secret_is_resumed_from() -> None:
    stream = Accounts([SECRET])
    first = read(stream)
    theirs = from_json(canonical(first.states[-1]).replace("<secret account.id plain>", SECRET))

    again = read(stream, state=state(accounts=as_object(theirs)))

    assert len(again.records) < len(first.records)
    assert again.states[-1] == first.states[-1]


class Invoices(Orders):
    """Of accounts whose ids are secret; a page is asked for by an address that has the first one's."""

    def partitions(self) -> Iterable[Partition]:
        return list_partitions("account", [SECRET, "other-1234"])

    def read_records(self, slice: Slice) -> Iterator[Item]:
        assert slice.partition["account"] in {SECRET, "other-1234"}
        for item in super().read_records(slice):
            assert isinstance(item, Page)
            yield replace(item, next=item.next and {**item.next, "url": f"https://api.example.com/?key={SECRET}"})


class Payments(Orders):
    """Of the invoices, which are followed; the secrets are those of the source, which only knows this stream."""

    hours = (2, 50)

    def __init__(self) -> None:
        super().__init__()
        self.guard(SecretMarks([("account.id", SECRET)]))

    def partitions_since(self, parents: Mapping[str, StreamState]) -> Iterable[Partition | ParentState]:
        return following_partitions(Invoices(), parents, invoice="id")

    def read_records(self, slice: Slice) -> Iterator[Item]:
        assert slice.partition["account"] in {SECRET, "other-1234"}
        yield from super().read_records(slice)


def test_a_secret_is_in_no_state_of_a_followed_parent() -> None:
    whole = read(Payments())

    assert whole.error is None
    assert {record["account"] for record in whole.records} == {SECRET, "other-1234"}
    assert SECRET not in canonical(whole.states)
    assert {"account": "<secret account.id plain>"} in [
        entry["partition"] for entry in whole.states[-1]["parent_state"]["invoices"]["states"]
    ]
    assert any("key=<secret account.id plain>" in canonical(state) for state in whole.states)
    places = [n for n, message in enumerate(whole.messages) if message["type"] == "STATE"]
    for place, blob in zip(places, whole.states, strict=True):
        before = [message["record"]["data"] for message in whole.messages[:place] if message["type"] == "RECORD"]
        again = read(Payments(), state=state(payments=as_object(blob)))
        assert (again.error, again.states[-1]) == (None, whole.states[-1])
        assert {*map(canonical, whole.records)} == {*map(canonical, [*before, *again.records])}
