import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from cdk import Item, Json, Page, ServerError, Slice, Source, Stream
from cdk.base.errors import CatalogError, ConfigError, TransientError
from cdk.base.logs import logger
from cdk.protocol.catalog import SyncMode
from cdk.testing import at, read, state
from tests.samples import STREAMS, Comments, Orders, Plain, Replies, ShopOrders, Users


class Broken(Users):
    """Breaks at its third page."""

    name = "users"

    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:
        if token == {"page": 2}:
            logger.info("the third page is asked for")
            raise ServerError("the third page is broken")
        return super().read_page(slice, token)


class Given(Source):
    def __init__(self, *streams: Stream) -> None:
        self._given = streams

    def streams(self, config: Mapping[str, Json]) -> Sequence[Stream]:
        if config.get("token") == "wrong":
            raise ConfigError("the token is wrong")
        return self._given


def test_a_run_has_records_states_and_statuses_in_order() -> None:
    run = read(Users())

    assert run.records == [{"id": 10 * page + i} for page in range(5) for i in range(3)]
    assert run.states[:2] == [{"page": 1}, {"page": 2}]
    assert run.states[-1] == {"__ab_full_refresh_sync_complete": True}
    assert run.statuses == ["STARTED", "RUNNING", "COMPLETE"]
    assert run.error is None
    kinds = [message["type"] for message in run.messages]
    assert (kinds[0], kinds[-2:]) == ("TRACE", ["STATE", "TRACE"])


def test_a_read_that_fails_has_its_error_and_what_came_before() -> None:
    run = read(Broken())

    assert isinstance(run.error, TransientError)
    assert "the third page is broken" in str(run.error)
    assert run.statuses == ["STARTED", "RUNNING", "INCOMPLETE"]
    assert len(run.records) == 6
    assert run.states[-1] == {"page": 2}


def test_what_a_failed_read_left_is_gone_on_from() -> None:
    cut = read(Broken())
    rest = read(Users(), state=cut.state_messages)

    assert cut.records + rest.records == read(Users()).records


@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.name)
def test_every_kind_of_stream_ends_complete_with_a_state(stream: Stream) -> None:
    run = read(stream)

    assert run.error is None
    assert run.statuses == ["STARTED", "RUNNING", "COMPLETE"]
    assert run.records
    assert len(run.state_messages) == 1
    again = read(stream, state=run.state_messages)
    assert again.error is None
    assert len(again.records) <= len(run.records)


@pytest.mark.parametrize(
    ("given", "shown"), [({"page": 2}, "an object"), ([{"page": 2}], "a list of dict"), ({}, "an object")]
)
def test_a_state_that_is_no_message_is_refused_in_words(given: Any, shown: str) -> None:
    with pytest.raises(TypeError, match=f"state: found {shown}, expected state messages: .*state_messages"):
        read(Users(), state=given)


def test_a_source_is_read_by_the_name_of_a_stream_or_whole() -> None:
    source = Given(Users(), Plain(), Orders())

    assert len(read(source, "plain").records) == 7
    run = read(source)
    assert len(run.records) == 15 + 7 + 21
    assert run.statuses == ["STARTED", "RUNNING", "COMPLETE"] * 3
    named = [message.stream.stream_descriptor.name for message in run.state_messages if message.stream]
    assert named == ["users", "plain", "orders"]


def test_a_stream_that_the_source_lacks_is_never_taken_for_an_empty_one() -> None:
    with pytest.raises(CatalogError, match="no stream 'user'; did you mean 'users'"):
        read(Given(Users(), Plain()), "user")


def test_a_config_that_the_source_refuses_is_the_error_of_the_run() -> None:
    run = read(Given(Users()), "users", config={"token": "wrong"})

    assert isinstance(run.error, ConfigError)
    assert run.messages == []


def test_streams_of_one_name_are_told_apart_by_their_namespace() -> None:
    class Abroad(Users):
        name = "users"
        namespace = "eu"

    run = read(Given(Users(), Abroad()))

    assert len(run.records) == 30
    assert [m["record"].get("namespace") for m in run.messages if m["type"] == "RECORD"] == [None] * 15 + ["eu"] * 15
    assert len(run.state_messages) == 2


def test_a_mode_may_be_asked_for() -> None:
    assert len(read(Orders(), mode=SyncMode.INCREMENTAL).records) == 21
    assert len(read(Orders(), mode=SyncMode.FULL_REFRESH).records) == 21


@pytest.mark.parametrize("stream", [Users(), Comments(), ShopOrders(), Replies()], ids=lambda stream: stream.name)
def test_slices_may_be_read_at_once(stream: Stream) -> None:
    run = read(stream, concurrency=3)

    assert run.error is None
    assert len(run.records) == len(read(stream).records)


def test_every_line_of_the_log_is_kept_and_the_logger_is_left_as_it_was() -> None:
    before = (logger.level, list(logger.handlers))
    logger.setLevel(logging.WARNING)
    run = read(Broken())
    level = logger.level
    logger.setLevel(before[0])

    assert run.logs == ["the third page is asked for"]
    assert (level, logger.handlers) == (logging.WARNING, before[1])


class Buggy(Plain):
    def read_records(self, slice: Slice) -> Iterator[Item]:  # noqa: ARG002
        yield {"id": 1}
        raise KeyError("user")


def test_an_error_that_is_none_of_ours_is_the_error_of_the_run_too() -> None:
    run = read(Buggy())

    assert run.error is not None
    assert "user" in str(run.error)
    assert run.statuses[-1] == "INCOMPLETE"


def test_a_state_that_is_none_is_the_error_of_the_run() -> None:
    run = read(Users(), state=state(users=at(_cdk=5)))

    assert run.error is not None
    assert "users" in str(run.error)
    assert run.records == []
