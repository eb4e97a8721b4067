"""Checks of a connector's records: against `discover` and their schema, and their keys and cursors."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import reduce

from cdk.base.schema_validator import DRAFT_7, SchemaValidator
from cdk.base.values import FieldValue, canonical
from cdk.rest import path as value_at
from cdk.rest.pagination.last_page import checking_pages_after_end
from cdk.state.manager import ConnectorStateManager
from cdk.state.slice import Partition
from cdk.state.stream_state import StreamState
from cdk.streams.order import NaturalOrder
from cdk.streams.stream import Stream
from cdk.testing.conformance.subject import Nonconforming, SuiteSubject, listed_json

__tracebackhide__ = True  # see `cdk.testing.conformance.subject`


def check_discover(subject: SuiteSubject) -> None:
    """Check that `discover` returns the same catalog twice, with a unique name and a valid schema for each stream."""
    first, second = (subject.command("discover") for _ in range(2))
    if first.code or len(first.of("CATALOG")) != 1:
        raise Nonconforming(
            f"`discover` ends with exit code {first.code}: {first.text[-600:]}",
            where=subject.name,
            expected="exit code 0 and one CATALOG",
            advice="build streams and schemas without raising for a good config",
        )
    if first.of("CATALOG") != second.of("CATALOG"):
        raise Nonconforming(
            "`discover` returns another catalog the second time",
            where=subject.name,
            expected="the same streams in the same order with the same schemas",
            advice="sort what has no order, and keep times and random values out of schemas",
        )
    streams = first.of("CATALOG")[0]["catalog"]["streams"]
    names = Counter((stream.get("namespace"), stream["name"]) for stream in streams)
    if twice := [name for (_, name), count in names.items() if count > 1]:
        raise Nonconforming(
            f"two streams are named {', '.join(twice)}",
            where=f"{subject.name}, catalog",
            expected="a name of its own for each stream",
            advice="rename one, or give them namespaces",
        )
    for stream in streams:
        try:
            SchemaValidator(stream["json_schema"], default=DRAFT_7)
        except ValueError as error:
            raise Nonconforming(
                f"the schema is not a JSON Schema: {error}",
                where=f"{stream['name']}.schema",
                expected="a JSON Schema, draft 7",
                advice="correct it; `spark-cdk discover --infer` shows one made from records",
            ) from None


def check_declared(subject: SuiteSubject, may_be_empty: Sequence[str]) -> None:
    """Check that every stream has records, and that its schema, if it declares any fields, declares all of theirs."""
    with subject.streams() as streams:
        for name, stream in streams.items():
            records = subject.first.records_of(name)
            if not records and name not in may_be_empty:
                raise _empty(subject, stream)
            schema = stream.json_schema()
            declared = {} if schema.get("additionalProperties") else schema.get("properties")
            fields = {field for record in records for field in record}
            if isinstance(declared, Mapping) and declared and (others := sorted(fields - declared.keys())):
                raise Nonconforming(
                    f"records have fields that the schema does not declare: {', '.join(others)}",
                    where=f"{name}.schema",
                    expected="all fields that the API sends",
                    advice="declare them; `spark-cdk discover --infer` shows their types. If they are not known in "
                    'advance, set `"additionalProperties": true`',
                )


def _empty(subject: SuiteSubject, stream: Stream) -> Nonconforming:
    """Return the error for a stream without records; the start of its cursor may lie after the suite's present."""
    problem, advice = "", "give the suite's API some, or list the stream in `may_be_empty`"
    if stream.incremental and stream.checkpoint_reader(StreamState()).next() is None:
        problem = f": there is nothing to read before {subject.now():%Y-%m-%dT%H:%M:%SZ}, the present of the suite"
        advice = "set the suite's `now` to a time after the start of the cursor, or the start to an earlier one"
    text = f"the read returns no record{problem}, so the stream cannot be checked"
    return Nonconforming(text, where=stream.name, expected="at least one record", advice=advice)


def check_warnings(subject: SuiteSubject, may_warn: Sequence[str]) -> None:
    """Check that a first read gives no warnings, and that no records follow the page taken for the last."""
    warnings = [text for text in subject.first.warnings if text.partition(":")[0] not in may_warn]
    with checking_pages_after_end():
        subject.read(why="a read that requests what follows the last pages")
    if warnings:
        raise Nonconforming(
            "a first read warns: " + "\n    ".join(warnings),
            where=subject.name,
            expected="no warning",
            advice="correct the connector; give the suite's API a second page where it has only one; or list the "
            "stream in `may_warn`",
        )


def check_schema(subject: SuiteSubject) -> None:
    """Check that every record conforms to the schema of its stream."""
    if errors := subject.first.schema_errors:
        raise Nonconforming(
            f"{len(errors)} values do not fit the schema:\n    " + "\n    ".join(errors[:5]),
            where=errors[0].partition(",")[0],
            expected="records of the types that the schema declares",
            advice="correct the schema, or convert the value in `parse` (in a manifest: a transformation)",
        )


def check_keys(subject: SuiteSubject) -> None:
    """Check that every record of a stream has its primary key, and that no two records have the same."""
    with subject.streams() as streams:
        for name, stream in streams.items():
            paths = stream.key_paths
            keys = [[value_at(*path)(record) for path in paths] for record in subject.first.records_of(name)]
            if paths and any(value is None for key in keys for value in key):
                raise Nonconforming(
                    "a record has no value for its primary key",
                    where=f"{name}, primary key {paths}",
                    expected="a value in every record",
                    advice="choose fields that all records have",
                )
            counts = Counter(canonical(key) for key in keys)
            if paths and (twice := [key for key, count in counts.items() if count > 1]):
                raise Nonconforming(
                    f"{len(twice)} keys occur more than once, such as {', '.join(twice[:3])}",
                    where=f"{name}, primary key {paths}",
                    expected="one record for each key in one read",
                    advice="add the field that tells them apart, such as the parent's; or correct the paging, if a "
                    "record comes on two pages",
                )


def check_cursors(subject: SuiteSubject) -> None:
    """Check that all records have the cursor field; the state reaches its highest value and never goes back."""
    with subject.streams() as streams:
        for name, stream in streams.items():
            if stream.cursor_field is not None and subject.first.records_of(name):
                _check_cursor(subject, name, stream, stream.cursor_field)


def _check_cursor(subject: SuiteSubject, name: str, stream: Stream, field: str) -> None:
    where = f"{name}, cursor {field!r}"
    values: list[FieldValue] = [value_at(*field.split("."))(record) for record in subject.first.records_of(name)]
    if None in values:
        raise Nonconforming(
            "a record has no value for the cursor",
            where=where,
            expected="a value in every record",
            advice="choose a field that all records have, or request it from the API",
        )
    reaches = (NaturalOrder() if stream.cursor is None else stream.cursor.state_order).reaches
    reached: dict[Partition, FieldValue] = {}
    for message in subject.states_of(name):
        for partition, position in ConnectorStateManager([message]).restore(stream).positions.items():
            value, before = (position.cursor or {}).get(field), reached.get(partition)
            if reaches(before, value) and not reaches(value, before):
                raise Nonconforming(
                    f"the state moves back from {before!r} to {value!r} for the partition {partition.key}",
                    where=where,
                    expected="a cursor that only grows",
                    advice="keep the highest value, and read windows oldest first",
                )
            reached[partition] = before if value is None else value
    if stream.cursor is None:
        highest = reduce(lambda greatest, value: value if reaches(value, greatest) else greatest, values)
    else:
        highest = stream.cursor.greatest_of_records(values)
    stands = [value for value in reached.values() if value is not None]
    if not any(reaches(value, highest) for value in stands):
        raise Nonconforming(
            f"the last state stands at {listed_json(stands) or 'nothing'}, and a record has {highest!r}",
            where=where,
            expected="a state at the highest value that was read, so that the next read resumes there",
            advice="advance the state to the highest value, and name the field as the records do",
        )
