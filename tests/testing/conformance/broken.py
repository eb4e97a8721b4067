"""A connector that does all that it must, and for each thing that one may do wrong a copy that does it wrong.

It has a stream of each kind, and errors that quote its key, so that mistakes of the kit itself show in its suite, too.
`bug` says which test of the suite is to notice it, and with which words.
"""

import base64
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import count
from urllib.parse import parse_qsl, urlsplit

from cdk import (
    CdkError,
    Checkpoint,
    CheckpointReader,
    ConfigError,
    CountCursor,
    DatetimeCursor,
    Item,
    Json,
    JsonSchema,
    Page,
    Partition,
    Slice,
    Source,
    Stream,
    StreamState,
)
from cdk.base.values import to_json
from cdk.rest import (
    Action,
    Bearer,
    CursorToken,
    Headers,
    HttpErrorHandler,
    HttpStream,
    PageNumber,
    Paginator,
    Request,
    Response,
)
from cdk.testing import MockApi

URL = "https://api.ledger.test"
CONFIG = {"api_key": "k3y-of-the-ledger", "branch": "north"}
ENTRIES = [
    {"id": number, "account": number % 3, "amount": number * 10, "booked_at": f"2024-03-0{number}T00:00:00Z"}
    for number in range(1, 8)
]
SPEC: JsonSchema = {
    "type": "object",
    "required": ["api_key", "region"],
    "properties": {
        "api_key": {"type": "string", "airbyte_secret": True},
        "branch": {"type": "string"},
        "region": {"type": "string", "default": "eu"},
        "sort_key": {"type": "string", "airbyte_secret": False},
    },
}
UNMARKED: JsonSchema = {"type": "object", "properties": {"api_key": {"type": "string"}}}
UNKNOWN: JsonSchema = {**SPEC, "required": ["token"]}
ACCOUNT: JsonSchema = {"type": "object", "properties": {"id": {"type": "integer"}}}
PARTS: JsonSchema = {"type": "object", "properties": {"id": {"type": "integer"}, "account": {"type": "integer"}}}
MISTYPED: JsonSchema = {"type": "object", "properties": {"amount": {"type": "string"}}}
ANY: JsonSchema = {"type": "object"}
ENTRY: JsonSchema = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "account": {"type": "integer"},
        "amount": {"type": "integer"},
        "booked_at": {"type": "string", "format": "date-time"},
    },
}


DAYS = [
    {"id": number, "account": number % 2, "booked_at": f"2024-01-{day:02}T00:00:00Z"}
    for number, day in enumerate((1, 3, 4, 5, 8, 9, 10, 10), 1)
]


def days(request: Request) -> Response:
    """The entries of an account and of the days from `since` up to `until`, this one included."""
    asked = dict(parse_qsl(urlsplit(request.full_url).query))
    rows = [
        row
        for row in DAYS
        if str(row["account"]) == asked["account"] and asked["since"] <= str(row["booked_at"])[:10] <= asked["until"]
    ]
    begin = 2 * int(asked.get("page", 1)) - 2
    body = to_json({"data": rows[begin : begin + 2]})
    return Response(200, Headers({"Content-Type": "application/json"}), body, request.full_url, request)


def ledger_api() -> MockApi:
    api = MockApi()
    api.get("/days").answers(days)
    api.get("/accounts").serves([{"id": number} for number in range(3)], size=2, at="data")
    api.get("/entries").serves(ENTRIES, size=2, at="data")
    api.get("/numbers").serves(ENTRIES, size=2, at="data")
    for account in range(3):
        rows = [{**entry, "id": position} for position, entry in enumerate(ENTRIES) if entry["account"] == account]
        api.get(f"/accounts/{account}/entries").serves(rows, size=2, at="data")
    return api


class Accounts(HttpStream):
    url_base = URL
    primary_key = "id"
    paginator: Paginator = PageNumber(size=2)
    records_path = ("data",)
    schema = ACCOUNT

    def path(self, slice: Slice) -> str:  # noqa: ARG002 - all are at one path
        return f"/{self.name}"

    def authenticator(self) -> Bearer:
        return Bearer(self.config["api_key"])

    def parse(self, response: Response, slice: Slice) -> Sequence[Mapping[str, Json]]:
        if "data" not in response.text:
            raise ValueError(f"the key {self.config['api_key']} opens no ledger: {response.text}")
        return super().parse(response, slice)


class Entries(Accounts):
    cursor = DatetimeCursor("booked_at", start="2024-01-01T00:00:00Z")
    schema = ENTRY


class Numbers(Accounts):
    """The entries by their number."""

    cursor = CountCursor("id")
    schema = ENTRY


class Bookings(Accounts):
    """The entries of each account."""

    namespace = "books"
    schema = ENTRY

    def partitions(self) -> Sequence[Partition]:
        return [Partition({"account": number}) for number in range(3)]

    def path(self, slice: Slice) -> str:
        return f"/accounts/{slice.partition['account']}/entries"


class Days(Accounts):
    """The entries of each account, some days at a time; the account of a slice is in an attribute, of its own copy."""

    cursor = DatetimeCursor(
        "booked_at",
        start="2024-01-01",
        end="2024-01-10",
        step=timedelta(days=3),
        granularity=timedelta(days=1),
        formats=["%Y-%m-%d"],
    )
    schema = ENTRY
    account: Json = None

    def partitions(self) -> Sequence[Partition]:
        return [Partition({"account": number}) for number in range(2)]

    def path(self, slice: Slice) -> str:
        self.account = slice.partition["account"]
        return super().path(slice)

    def params(self, slice: Slice) -> dict[str, Json]:
        assert slice.window is not None
        return {"account": self.account, "since": slice.window.start, "until": slice.window.end}

    def parse(self, response: Response, slice: Slice) -> Sequence[Mapping[str, Json]]:
        return [{**record, "account": self.account} for record in super().parse(response, slice)]


class Touching(Days):
    """Windows that end where the next begins: the API gives what lies there with both."""

    cursor = DatetimeCursor(
        "booked_at", start="2024-01-01", end="2024-01-10", step=timedelta(days=3), formats=["%Y-%m-%d"]
    )

    def path(self, slice: Slice) -> str:
        super().path(slice)
        return "/days"


class Ledger(Source):
    config_schema = SPEC
    stream_classes: Sequence[type[Stream]] = (Accounts, Entries, Numbers, Bookings, Days, Touching)

    def check(self, config: Mapping[str, Json]) -> None:
        try:
            super().check(config)
        except CdkError as error:
            raise ConfigError(f"the key {config['api_key']} opens no ledger: {error}") from error


@dataclass(frozen=True)
class Bug:
    """A connector that does one thing wrong. noticed_by: a test of the suite. words: what that says."""

    source: Source
    noticed_by: str
    words: str


BUGS: dict[str, Bug] = {}


def bug(name: str, noticed_by: str, words: str) -> Callable[[type[Stream] | type[Source]], type]:
    """Put a class into `BUGS`: a source, or a stream in the place of that of its base."""

    def add(cls: type[Stream] | type[Source]) -> type:
        if issubclass(cls, Source):
            source: Source = cls()
        else:
            # It stands for the stream whose name it has, or else for its base.
            cls.name = "entries" if vars(cls).get("schema") is ENTRY else vars(cls.__mro__[1])["name"]
            source = Ledger()
            source.stream_classes = [cls if base.name == cls.name else base for base in Ledger.stream_classes]
        BUGS[name] = Bug(source, noticed_by, words)
        return cls

    return add


@bug("a secret that is not marked", "the_spec_describes", "'api_key' looks like a secret")
class Unmarked(Ledger):
    config_schema = UNMARKED


@bug("a spec that requires what it does not have", "the_spec_describes", "requires token, which it does not describe")
class Unknown(Ledger):
    config_schema = UNKNOWN


@bug("a check that checks nothing", "the_check_accepts", "`check` sends no request")
class Unchecked(Ledger):
    def check(self, config: Mapping[str, Json]) -> None: ...


@bug("a check that hides what went wrong", "the_check_accepts", "`check` succeeds with an API that answers 401")
class Hiding(Ledger):
    def check(self, config: Mapping[str, Json]) -> None:
        try:
            super().check(config)
        except CdkError:
            return


@bug("a property that is needed and not required", "bad_configs", "`check` breaks with a config without 'branch'")
class Needing(Accounts):
    def path(self, slice: Slice) -> str:  # noqa: ARG002
        return f"/accounts?branch={self.config['branch']}"


@bug(
    "a catalog that depends on when it is asked for", "discover_is_the_same", "returns another catalog the second time"
)
class Changing(Accounts):
    def json_schema(self) -> JsonSchema:
        return {"type": "object", "title": f"as of {time.time_ns()}"}


@bug("fields that nobody declares", "each_stream_brings", "does not declare: amount, booked_at")
class Undeclared(Entries):
    schema = PARTS


@bug("a wrong records_path that passes for empty", "each_stream_brings", "the read returns no record")
class Empty(Accounts):
    def parse(self, response: Response, slice: Slice) -> Sequence[Mapping[str, Json]]:  # noqa: ARG002
        return response.json().get("items") or []


@bug("a path of a token that no response has", "the_last_page", "there is no 'following' in the body, whose fields")
class Unfollowed(Accounts):
    paginator = CursorToken("following", param="page")


@bug("a page size that the source does not have", "the_last_page", "returned 1 records, although the page before it")
class Short(Accounts):
    paginator = PageNumber(size=3)


@bug("a type that the records do not have", "records_fit", "amount: found 10, expected a string")
class Mistyped(Entries):
    schema = MISTYPED


@bug("a key that is not unique", "primary_keys", "3 keys occur more than once")
class Ambiguous(Entries):
    primary_key = "account"


@bug("a key that no record has", "primary_keys", "a record has no value for its primary key")
class Keyless(Accounts):
    primary_key = "uuid"


@bug(
    "a state that keeps the value of the last record, which is not the highest", "cursors_grow", "the state moves back"
)
class Backwards(Accounts):
    name = "entries"
    schema = ENTRY
    supports_checkpointing = True
    cursor_field = "booked_at"

    def read_records(self, slice: Slice) -> Iterator[Item]:
        start = (slice.start.cursor or {}).get("booked_at", "")
        for entry in reversed(ENTRIES):
            if entry["booked_at"] > start:
                yield entry
                yield Checkpoint({"booked_at": entry["booked_at"]})


@bug("a state that never moves", "cursors_grow", "the last state stands at")
class Stuck(Accounts):
    name = "entries"
    schema = ENTRY
    cursor_field = "booked_at"

    def read_records(self, slice: Slice) -> Iterator[Item]:  # noqa: ARG002
        yield Checkpoint({"booked_at": "2024-01-01T00:00:00Z"})
        yield from ENTRIES


@bug("a state that covers a page before its records", "every_state", "records are lost by a read that resumes")
class Hasty(Accounts):
    supports_checkpointing = True

    def read_records(self, slice: Slice) -> Iterator[Item]:
        for number in range((slice.start.cursor or {}).get("next", 0), 3):
            yield Checkpoint({"next": number + 1})
            yield {"id": number}


@bug("rows that are used up by the first read", "slices_may_be_read_at_once", "2 are missing")
class UsedUp(Accounts):
    supports_checkpointing = True
    rows = iter([{"id": 1}, {"id": 2}])

    def read_records(self, slice: Slice) -> Iterator[Item]:  # noqa: ARG002
        yield from self.rows
        yield Checkpoint({"page": 1})


@bug("records with the time of the read", "a_second_read", "records are returned that the first read did not have")
class Stamped(Entries):
    schema = ANY

    def parse(self, response: Response, slice: Slice) -> list[Mapping[str, Json]]:
        return [{**record, "read_at": time.time_ns()} for record in super().parse(response, slice)]


@bug("a slice's account in an attribute of the class", "slices_may_be_read_at_once", "4 concurrent slices return other")
class Sharing(Bookings):
    current: Json = None

    def path(self, slice: Slice) -> str:
        Sharing.current = slice.partition["account"]
        return super().path(slice)

    def parse(self, response: Response, slice: Slice) -> list[Mapping[str, Json]]:
        return [{**record, "account": Sharing.current} for record in super().parse(response, slice)]


@bug("a stream that is another one each time it is built", "a_sync_writes", "and a read has")
class Counted(Accounts):
    built = count()

    def read_records(self, slice: Slice) -> Iterator[Item]:  # noqa: ARG002
        yield from ({"id": number} for number in range(1 + next(self.built)))


@bug("a line on standard output", "a_read_ends", "`read` writes a line that is not a protocol message: 'reading'")
class Chatty(Accounts):
    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:
        os.write(1, b"reading\n")
        return super().read_page(slice, token)


@bug("a failed response that passes for an empty one", "an_api_that_fails", "the stream is COMPLETE with")
class Forgiving(Accounts):
    error_handler = HttpErrorHandler({500: Action.IGNORE})


@bug("an error that is swallowed", "an_api_that_fails", "the stream is COMPLETE with")
class Swallowing(Accounts):
    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:
        try:
            return super().read_page(slice, token)
        except CdkError:
            return Page([], None)


@bug("a token that is printed in pieces", "no_secret", "a secret of the config or of a request is in what `")
class Printing(Accounts):
    def authenticator(self) -> Bearer:
        # As a whole it is masked.
        print("the token is ", *self.config["api_key"], sep="", file=sys.stderr)
        return super().authenticator()


@bug("a token that is printed in pieces of base64", "no_secret", "a secret of the config or of a request is in what `")
class Encoding(Accounts):
    def authenticator(self) -> Bearer:
        print("Basic ", *base64.b64encode(self.config["api_key"].encode()).decode(), sep="", file=sys.stderr)
        return super().authenticator()


@bug(
    "a token that no config has, and that is printed",
    "no_secret",
    "a secret of the config or of a request is in what `",
)
class Issued(Accounts):
    def authenticator(self) -> Bearer:
        return Bearer(self.config["api_key"][::-1])

    def parse(self, response: Response, slice: Slice) -> Sequence[Mapping[str, Json]]:
        print("sent", response.request.headers, file=sys.stderr)
        return super().parse(response, slice)


@bug(
    "windows that leave out their last day", "windows_leave_nothing_out", "records are read only with windows of other"
)
class Gapped(Days):
    def params(self, slice: Slice) -> dict[str, Json]:
        assert slice.window is not None
        until = str(date.fromisoformat(str(slice.window.end)) - timedelta(days=1))
        return {**super().params(slice), "until": until}


@bug("an error in windows of other lengths", "windows_leave_nothing_out", "other lengths fails: days: found ****, exp")
class Measured(Days):
    """Knows what the API calls periods of so many days."""

    def params(self, slice: Slice) -> dict[str, Json]:
        assert slice.window is not None
        begin, end = (date.fromisoformat(str(edge)) for edge in (slice.window.start, slice.window.end))
        if (end - begin).days not in {2, 3}:
            raise ConfigError(f"days: found {self.config['api_key']}, expected another")
        return super().params(slice)


@bug("windows that are not sent", "the_last_page", "lie outside of the window that was requested")
class Unbounded(Days):
    def params(self, slice: Slice) -> dict[str, Json]:
        return {**super().params(slice), "since": "2024-01-01", "until": "2024-02-01"}


@bug("a partition without a state that begins where others stand", "every_state", "records are lost by a read that res")
class Leaping(Days):
    def checkpoint_reader(self, state: StreamState) -> CheckpointReader:
        reached = [position.cursor for position in state.positions.values() if position.cursor is not None]
        return super().checkpoint_reader(state.with_(Partition(), Checkpoint(reached[0])) if reached else state)


@bug("a state that covers what an error cut off", "an_api_that_fails", "records are lost by a read after")
class Finally(Accounts):
    supports_checkpointing = True

    def read_records(self, slice: Slice) -> Iterator[Item]:
        number = (slice.start.cursor or {}).get("page", 1)
        while number < 3:
            try:
                yield from self.read_page(slice, {"page": number, "page_size": 2}).records
            finally:
                number += 1
                yield Checkpoint({"page": number})
