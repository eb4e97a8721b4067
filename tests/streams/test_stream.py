"""What a stream is called, what it says of itself, and the readers it chooses."""

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import new_class

import pytest
from pydantic import BaseModel

from cdk import (
    Checkpoint,
    ConfigError,
    CountCursor,
    DatetimeCursor,
    FatalError,
    Item,
    Json,
    JsonSchema,
    Page,
    PageCheckpointReader,
    PartitionReader,
    Slice,
    SliceCheckpointReader,
    Start,
    StateMixin,
    Stream,
    Window,
)
from cdk.rest import HttpStream
from cdk.state.slice import WHOLE, Partition
from cdk.state.stream_state import StreamState
from cdk.streams.read_slice import read_slice
from cdk.streams.stream import ANY_OBJECT
from tests.samples import DAY0, Users


class Described(Stream):
    def read_records(self, slice: Slice) -> Iterator[Item]:  # noqa: ARG002
        yield {"id": 1}


class HTTPLogEntries2(Described):
    schema: JsonSchema = {"type": "object"}  # noqa: RUF012 - as an author writes it


class Renamed(Described):
    name = "other"


class Counted(Described):
    cursor = CountCursor("seq")


class ByHand(Described):
    cursor_field = "version"


class Configured(Described):
    def __init__(self, config: Mapping[str, Json] | None = None) -> None:
        super().__init__(config)
        if "since" in self.config:
            self.cursor = CountCursor(self.config.get("field", "seq"), start=self.config["since"])


class Chosen(Counted):
    cursor = CountCursor("version")


class Both(Configured):
    cursor_field = "updated"


@pytest.mark.parametrize(
    ("stream", "field"),
    [
        (Described(), None),
        (Counted(), "seq"),
        (Chosen(), "version"),
        (Configured(), None),
        (Configured({"since": 5}), "seq"),
        (Configured({"since": 5, "field": "id"}), "id"),
        (Both(), "updated"),
        (Both({"since": 5}), "updated"),
        (ByHand(), "version"),
    ],
)
def test_a_stream_has_the_field_of_its_own_cursor(stream: Stream, field: str | None) -> None:
    assert (stream.cursor_field, stream.incremental) == (field, field is not None)


def test_a_class_has_the_field_of_its_cursor() -> None:
    assert (Described.cursor_field, Counted.cursor_field, Chosen.cursor_field) == (None, "seq", "version")


def test_a_cursor_that_init_has_set_plans_the_windows() -> None:
    reader = Configured({"since": 5}).slices(WHOLE, Start(), DAY0)
    slice = reader.next()

    assert isinstance(reader, SliceCheckpointReader)
    assert slice is not None
    assert slice.window == Window(5)


def test_a_stream_is_named_after_its_class_unless_it_says_otherwise() -> None:
    names = {cls: cls.name for cls in (Described, HTTPLogEntries2, Renamed, Counted)}

    assert list(names.values()) == ["described", "http_log_entries2", "other", "counted"]


def test_the_schema_is_given_or_lies_beside_the_class_or_is_any_object() -> None:
    assert HTTPLogEntries2().json_schema() == {"type": "object"}
    assert Described().json_schema() == {"type": "object", "properties": {"id": {"type": "integer"}}}
    assert Renamed().json_schema() == ANY_OBJECT


@pytest.mark.parametrize(
    ("key", "paths"),
    [((), []), ("id", [["id"]]), (["id", "at"], [["id"], ["at"]]), ([("a", "b"), "c"], [["a", "b"], ["c"]])],
)
def test_a_primary_key_is_a_list_of_paths(key: str | list[str], paths: list[list[str]]) -> None:
    stream = Described()
    stream.primary_key = key

    assert stream.key_paths == paths


@pytest.mark.parametrize(
    ("stream", "field", "reader"),
    [
        (Described(), None, PageCheckpointReader),
        (ByHand(), "version", PageCheckpointReader),
        (Counted(), "seq", SliceCheckpointReader),
    ],
)
def test_a_cursor_makes_a_stream_incremental(stream: Stream, field: str | None, reader: type[PartitionReader]) -> None:
    assert (stream.cursor_field, stream.incremental) == (field, field is not None)
    assert type(stream.slices(WHOLE, Start(), DAY0)) is reader


def test_a_paged_stream_is_asked_for_one_page_after_the_other_from_where_it_stopped() -> None:
    stream = Users()

    assert [page.next for page in stream.read_records(Slice()) if isinstance(page, Page)] == [
        *({"page": n} for n in range(1, 5)),
        None,
    ]
    (first, *_) = stream.read_records(Slice(start=Checkpoint({"page": 3})))
    assert isinstance(first, Page)
    assert first.records[0] == {"id": 30}


class User(BaseModel):
    id: int


def test_a_schema_may_be_a_pydantic_model() -> None:
    class Modelled(Described):
        schema = User

    assert Modelled().json_schema()["properties"] == {"id": {"title": "Id", "type": "integer"}}


CURSORS = r"a cursor such as `DatetimeCursor\('updated_at', .*`, or None; .* is its `cursor_field`"
SCHEMAS = "a JSON Schema of objects, .* or a pydantic model"
KEYS = "the name of a field, or a list of names"
SLIPS = [
    ("cursor", "updated_at", f"found 'updated_at', expected {CURSORS}"),
    ("cursor", DatetimeCursor, f"found the class DatetimeCursor, expected {CURSORS}"),
    ("cursor", {"field": "at"}, f"found {{'field': 'at'}}, expected {CURSORS}"),
    ("cursor_field", ["updated_at"], r"found \['updated_at'\], expected the name of a field, or None"),
    ("cursor_field", 1, "found 1, expected the name of a field, or None"),
    ("primary_key", 3, f"found 3, expected {KEYS}"),
    ("primary_key", None, f"found None, expected {KEYS}"),
    ("primary_key", ["id", 3], rf"found \['id', 3\], expected {KEYS}"),
    ("primary_key", b"id", f"found a bytes, expected {KEYS}"),
    ("schema", {"type": "objct"}, f"found {{'type': 'objct'}}, expected {SCHEMAS}"),
    ("schema", {"type": ["null", "array"]}, f"found {{'type': .*}}, expected {SCHEMAS}"),
    ("schema", "users.json", f"found 'users.json', expected {SCHEMAS}"),
    ("schema", int, f"found the class int, expected {SCHEMAS}"),
]


@pytest.mark.parametrize(("name", "value", "said"), SLIPS)
def test_an_attribute_of_another_type_is_refused_when_the_class_is_made(name: str, value: object, said: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{__name__}\.Odd\.{name}: {said}"):
        type("Odd", (Described,), {name: value, "__module__": __name__})


@pytest.mark.parametrize(("name", "value", "said"), SLIPS)
def test_an_attribute_of_another_type_is_refused_when_init_assigns_it(name: str, value: object, said: str) -> None:
    class Odd(Described):
        def __init__(self, config: Mapping[str, Json] | None = None) -> None:
            super().__init__(config)
            vars(self)[name] = value

    with pytest.raises(ConfigError, match=rf"^{__name__}\.\S+\.Odd\.{name}: {said}"):
        Odd()


@pytest.mark.parametrize(
    "names",
    [
        {"primary_key": ()},
        {"primary_key": ["id", ("a", "b")]},
        {"cursor": None, "cursor_field": "at"},
        {"cursor": CountCursor("at")},
        {"cursor": property(lambda _: CountCursor("at"))},
        {"schema": {}},
        {"schema": {"type": ["null", "object"]}},
        {"schema": User},
        {"schema": None},
    ],
)
def test_attributes_that_fit_or_are_computed_are_let_be(names: dict[str, object]) -> None:
    assert type("Good", (Described,), names)().name == "good"


def test_a_method_in_the_place_of_an_attribute_is_refused_with_the_way_to_compute_it() -> None:
    with pytest.raises(ConfigError, match=r"Odd\.cursor: found a function, .*; put `@property` before the method"):
        type("Odd", (Described,), {"cursor": lambda self: CountCursor("at")})  # noqa: ARG005


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"type": ', r"described\.json:1:\d+: is not JSON"),
        ("[1]", r"described\.json: found \[1\], expected a JSON Schema of objects"),
        ('{"type": "list"}', r"described\.json: found {'type': 'list'}, expected a JSON Schema of objects"),
    ],
)
def test_a_schema_file_without_a_schema_is_named(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "described.json").write_text(text)
    stream = type("Described", (Described,), {"code_file": lambda _: str(tmp_path / "code.py")})()

    with pytest.raises(ConfigError, match=expected):
        stream.json_schema()


def test_a_schema_that_is_computed_is_checked_when_it_is_needed() -> None:
    odd = type("Odd", (Described,), {"schema": property(lambda _: {"type": "list"})})()

    with pytest.raises(ConfigError, match=r"Odd\.schema: found {'type': 'list'}, expected"):
        odd.json_schema()


def test_copies_and_unpickled_streams_are_not_checked_again() -> None:
    stream = Described()
    vars(stream)["cursor"] = "at"

    assert vars(pickle.loads(pickle.dumps(stream.beside())))["cursor"] == "at"  # noqa: S301 - our own bytes


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("json_schema", {"type": "object"}, r"Odd\.json_schema is a dict, expected a method; call it `schema`"),
        ("partitions", [], r"Odd\.partitions is a list, expected a method; write `def partitions\(self, "),
        ("read_records", [{"id": 1}], r"Odd\.read_records is a list, expected a method"),
    ],
)
def test_a_value_in_the_place_of_a_method_is_refused_by_name(name: str, value: Json, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        type("Odd", (Described,), {name: value})


def function(text: str) -> Callable[..., Json]:
    made: Callable[..., Json] = eval(f"lambda {text}: None")  # noqa: S307 - a test's own
    return made


@pytest.mark.parametrize(
    ("base", "name", "text", "why", "expected"),
    [
        (Users, "read_page", "self, slice", "too many positional arguments", "self, slice, token"),
        (Users, "read_page", "self, slice, token, page", "missing a required argument: 'page'", "self, slice, token"),
        (HttpStream, "params", "self", "too many positional arguments", "self, slice"),
        (HttpStream, "parse", "self, response, *, slice", "too many positional arguments", "self, response, slice"),
    ],
)
def test_a_method_that_cannot_be_called_as_the_kit_calls_it_is_refused(
    base: type[Stream], name: str, text: str, why: str, expected: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        type("Odd", (base,), {name: function(text)})

    assert f"Odd.{name} cannot be called as the kit calls it ({why}); write `def {name}({expected})`" in str(
        raised.value
    )


@pytest.mark.parametrize(
    "names",
    [
        {"params": function("self, slice, more=None")},
        {"params": function("self, *args, **kwargs")},
        {"parse": function("self, answer, part")},
        {"read_page": staticmethod(function("slice, token"))},
    ],
)
def test_a_method_may_name_and_take_its_arguments_otherwise(names: dict[str, object]) -> None:
    assert vars(type("Own", (HttpStream,), names)).keys() >= names.keys()


def test_what_a_connector_names_itself_may_be_called_as_it_likes() -> None:
    base = type("Base", (HttpStream,), {"rows": function("self, response")})

    assert issubclass(type("Own", (base,), {"rows": function("self")}), base)


class Returning(Stream):
    def __init__(self, found: Json) -> None:
        super().__init__()
        self.found = found

    def read_records(self, slice: Slice) -> Iterator[Item]:  # noqa: ARG002
        found: Iterator[Item] = self.found
        return found


@pytest.mark.parametrize("mixin", [(), (StateMixin,)], ids=["plain", "state"])
@pytest.mark.parametrize(("found", "kind"), [(None, "NoneType"), ({"id": 1}, "dict"), ("x", "str"), (7, "int")])
def test_what_is_no_records_is_refused_with_the_line_of_the_connector(
    mixin: tuple[type, ...], found: Json, kind: str
) -> None:
    line = Returning.read_records.__code__.co_firstlineno
    stream = type("Mixed", (*mixin, Returning), {})(found)

    with pytest.raises(FatalError, match=rf"test_stream\.py:{line}\) returned a {kind}, expected records: `yield`"):
        list(read_slice(stream, Slice()))


class Undivided(Returning):
    def partitions(self) -> Iterable[Partition]:
        partitions: Iterable[Partition] = self.found
        return partitions


@pytest.mark.parametrize(("found", "kind"), [(None, "NoneType"), ({"part": 1}, "dict"), ("x", "str"), (7, "int")])
def test_what_is_no_partitions_is_refused_with_the_line_of_the_connector(found: Json, kind: str) -> None:
    line = Undivided.partitions.__code__.co_firstlineno

    with pytest.raises(FatalError, match=rf"test_stream\.py:{line}\) returned a {kind}, expected partitions: `yield`"):
        Undivided(found).checkpoint_reader(StreamState())


def test_records_may_be_returned_as_a_list() -> None:
    (page,) = read_slice(Returning([{"id": 1}, {"id": 2}]), Slice())

    assert page.records == [{"id": 1}, {"id": 2}]


def test_a_stream_may_name_stream_beside_what_it_mixes_in() -> None:
    # As `class Shown(Stream, StateMixin)`, in which type checkers see what Python itself would refuse.
    shown = new_class("Shown", (Stream, StateMixin))

    assert shown.__bases__ == (StateMixin,)


def misspelt(name: str, value: object) -> str:
    with pytest.raises(ConfigError) as caught:
        type("Misspelt", (HttpStream,), {name: value})
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "near"),
    [
        ("primry_key", "id", "primary_key"),
        ("primaryKey", "id", "primary_key"),
        ("record_path", ("data",), "records_path"),
        ("pagniator", None, "paginator"),
        ("header", function("self, slice"), "headers"),
        ("parse_response", function("self, response"), "parse"),
        ("parse_respones", function("self, response, slice"), "parse"),
        ("next_page_token", function("self, response"), "paginator"),
    ],
)
def test_a_name_that_is_nearly_one_of_the_kit_is_an_error(name: str, value: object, near: str) -> None:
    text = misspelt(name, value)

    assert (
        f"Misspelt.{name} is not a name that the kit uses; did you mean {near!r}? Rename it to that, or to `_{name}`"
        in text
    )


@pytest.mark.parametrize(
    "names",
    [
        {"_primry_key": "id"},
        {"schemas": {}, "header": "X-Key", "names": []},
        {"header": function("self, name")},
        {"path_of": function("self, slice"), "parsed": function("self, text"), "retry": 3},
        {"parse": function("self, response, slice"), "parse_response": function("self, response")},
        {"read_page": function("self, slice, token"), "parse_response": function("self, response")},
    ],
)
def test_names_of_an_authors_own_are_let_be(names: dict[str, object]) -> None:
    assert vars(type("Own", (HttpStream,), names)).keys() >= names.keys()


class Backfill(Described):
    cursor = DatetimeCursor("at", start="2024-01-01T00:00:00Z", end="2024-01-03T00:00:00Z", rereads_edge=False)


@pytest.mark.parametrize(
    ("value", "warned"),
    [
        ("2024-01-02T00:00:00Z", False),
        ("2024-01-03T00:00:00Z", False),
        ("2024-01-04T00:00:00Z", True),
        ("2999-01-01T00:00:00Z", True),
    ],
)
def test_a_state_after_the_end_of_the_cursor_is_warned_of_with_that_end(
    value: str,
    warned: bool,  # noqa: FBT001
    caplog: pytest.LogCaptureFixture,
) -> None:
    Backfill().checkpoint_reader(StreamState({WHOLE: Checkpoint({"at": value})})).next()

    assert ("after the end of what can be read now (2024-01-03 00:00:00" in caplog.text) is warned
    assert (caplog.text != "") is warned
