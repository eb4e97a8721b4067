"""Collection: the records of one kind in a simulated API, generated from a seed at each request.

Growth happens in rounds: each adds new records and changes others, with cursor values after those of all earlier
rounds. Nothing is stored: the same seed and round produce the same records in any process.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from random import Random
from typing import TypeAlias
from uuid import UUID
from zlib import crc32

from msgspec import Struct
from msgspec.structs import replace

from cdk.base.errors import ConfigError
from cdk.base.times.clock import write_timestamp
from cdk.base.values import JsonObject, JsonSchema, JsonValue, as_object, kinds_of, properties_of
from cdk.rest import path
from cdk.sources.schema_check import mismatches
from cdk.streams.count_cursor import CountCursor
from cdk.streams.cursor import Cursor
from cdk.streams.datetime_cursor import DatetimeCursor
from cdk.testing.simulator.examples import example_of

ROUND = timedelta(days=1)
"""How far the clock advances from one round to the next."""

Path: TypeAlias = tuple[str, ...]
"""The path of a value in a record."""

Choices: TypeAlias = Mapping[Path, Sequence[JsonValue]]
"""Possible values of fields, by path."""

_GREATEST_SERIAL = 100_000
_PER_SERIAL = 10_000
_SAMPLED = 5040
"""The number of the first sample record; filters keep it, however many there are."""


class World(Struct, frozen=True):
    """What to simulate. records: of a stream without parents, in the first round. round: from 0; see `ROUND`.

    faults: whether each kind of request fails a few times before it succeeds. now: the present in the first round.
    """

    records: int = 25
    seed: int = 0
    round: int = 0
    faults: bool = False
    now: datetime = datetime(2024, 4, 1, tzinfo=UTC)

    @classmethod
    def parse(cls, text: str) -> "World":
        """Parse a world such as `records=100,round=1,faults`. Raises ConfigError: when the text is invalid."""
        world = cls()
        for part in filter(None, map(str.strip, text.split(","))):
            name, _, value = part.partition("=")
            if name == "faults" and not value:
                world = replace(world, faults=True)
            elif name in {"records", "seed", "round"} and value.isdecimal():
                world = replace(world, **{name: int(value)})
            else:
                raise ConfigError(f"--simulate: found {part!r}, expected records=N, seed=N, round=N or faults")
        return world

    @property
    def present(self) -> datetime:
        """The time at which this round is read."""
        return self.now + self.round * ROUND

    @property
    def total_records(self) -> int:
        """The number of records of a stream without parents in this round."""
        return self.records + self.round * self.new_per_round

    @property
    def new_per_round(self) -> int:
        """How many new records each round adds to such a stream."""
        return max(1, self.records // 10)

    def chance(self, *what: object) -> Random:
        """Return a random generator that is the same for the same seed and arguments."""
        return Random(f"{self.seed} {what}")  # noqa: S311 - data of tests


class Collection(Struct, frozen=True):
    """Records of one kind. key_paths: the values that identify a record. cursor: the field that grows.

    descending: the API returns the newest records first. copies: paths whose values the stream copies to others.
    passing: for each filter of a stream, the values that most records get so that the filter keeps them.
    """

    name: str
    schema: JsonSchema
    key_paths: Sequence[Path] = ()
    cursor: Cursor | None = None
    descending: bool = False
    copies: Sequence[tuple[Path, Path]] = ()
    passing: Sequence[Choices] = ()

    def joined(self, other: "Collection") -> "Collection":
        """Return this collection with the needs of another one added, for two streams that read the same endpoint."""
        own, others = properties_of(self.schema), properties_of(other.schema)
        properties = {**others, **{name: part for name, part in own.items() if part or name not in others}}
        schema = {**self.schema, "properties": properties}
        passing = [each for each in (*self.passing, *other.passing) if _fits(each, schema)]
        return replace(
            self,
            schema=schema,
            key_paths=list(dict.fromkeys([*self.key_paths, *other.key_paths])),
            copies=list(dict.fromkeys([*self.copies, *other.copies])),
            passing=[each for at, each in enumerate(passing) if each not in passing[:at]],
        )

    def records(self, world: World, part: str = "") -> list[JsonObject]:
        """Return all records of a part, such as one parent's, in cursor order, or else in the order of their creation.

        part: the key of the part; a stream without parents has a single part, the empty one.
        """
        versions = self._versions(world, part)
        built = [(version, number, self._record(world, part, number, version)) for number, version in versions.items()]
        if self.cursor is None:
            return [record for _, _, record in built]
        rank, field = self.cursor.order.rank, self.cursor.field
        built.sort(key=lambda each: (rank(each[2].get(field)) or 0, *each[:2]), reverse=self.descending)
        return [record for _, _, record in built]

    def samples(self, world: World, count: int) -> list[JsonObject]:
        """Return sample records for trying out responses, all equally nested; no page has records of their numbers."""
        flat = {
            name: part
            for name, part in properties_of(self.schema).items()
            if not {"object", "array"} & {*kinds_of(as_object(part))}
        }
        light = replace(self, schema={"type": "object", "properties": flat})
        full = self._record(world, "", _SAMPLED, 0)
        numbers = range(_SAMPLED, _SAMPLED + count)
        built = [light._record(world, "", number, 0) for number in numbers]  # noqa: SLF001 - of the same class
        return [
            {**full, **{name: each for name, each in flat_record.items() if not isinstance(each, dict)}}
            for flat_record in built
        ]

    def _versions(self, world: World, part: str) -> Mapping[int, int]:
        """Return the round in which each record last changed, by record number."""
        first = world.chance(self.name, part).randint(0, max(2, world.records // 5)) if part else world.records
        versions = dict.fromkeys(range(first), 0)
        for turn in range(1, world.round + 1):
            chance = world.chance(self.name, part, "round", turn)
            if versions and not self._appends:
                versions |= dict.fromkeys(chance.sample(sorted(versions), max(1, len(versions) // 10)), turn)
            new = chance.randint(0, 1) if part else world.new_per_round
            versions |= dict.fromkeys(range(len(versions), len(versions) + new), turn)
        return versions

    @property
    def _appends(self) -> bool:
        """Whether records never change, because the cursor field is part of the key."""
        return self.cursor is not None and (self.cursor.field,) in self.key_paths

    def _record(self, world: World, part: str, number: int, version: int) -> JsonObject:
        record = as_object(example_of(self.schema, self.name, world.chance(self.name, part, number, version)))
        built = dict(record)
        for key in self.key_paths:
            put(built, key, _distinct(schema_at(self.schema, key), self.name, part, number))
        for at, values in self._kept_by(number).items():
            if not self._is_set(at):
                put(built, at, world.chance(self.name, part, number, at).choice(values))
        if self.cursor is not None:
            built[self.cursor.field] = self._cursor_value(self.cursor, world, part, number, version)
        for source, target in self.copies:
            source_value, target_value = path(*source)(built), path(*target)(built)
            if source_value is None or self._is_set(target):
                value = example_of(schema_at(self.schema, target), target[-1]) if target_value is None else target_value
                put(built, source, value)
        return built

    def _is_set(self, at: Path) -> bool:
        """Whether the key or the cursor determines the value at a path."""
        return at in self.key_paths or (self.cursor is not None and at == (self.cursor.field,))

    def _kept_by(self, number: int) -> Choices:
        """Return values with which a filter keeps this record; each filter has its share of records, some have none."""
        turns: Sequence[Choices] = [*self.passing, *self.passing, {}]
        return turns[number % len(turns)]

    def _cursor_value(self, cursor: Cursor, world: World, part: str, number: int, version: int) -> JsonValue:
        kinds = kinds_of(schema_at(self.schema, (cursor.field,)))
        match cursor:
            case CountCursor():
                value: float | str = cursor.start + 1 + number + (0 if self._appends else version * _PER_SERIAL)
            case DatetimeCursor():
                share = (number + world.chance(part, number, version).random()) / max(world.records, number + 1)
                begin, end = self._times(cursor, world, version)
                value = write_timestamp(begin + (end - begin) * share, cursor.order.formats[0])
            case _:
                raise ConfigError(f"{self.name}: its cursor is a {type(cursor).__name__}, whose values are unknown")
        if "string" in kinds:
            return str(value)
        return int(value) if "integer" in kinds and isinstance(value, float) else value

    def _times(self, cursor: DatetimeCursor, world: World, turn: int) -> tuple[datetime, datetime]:
        """Return the earliest and latest cursor time of the records of a round."""
        end = _last(cursor, world.now + turn * ROUND)
        begin = _last(cursor, world.now + (turn - 1) * ROUND) if turn else cursor.timestamp(cursor.start) or end
        return min(begin + timedelta(seconds=1), end), end


@lru_cache(maxsize=256)
def _last(cursor: DatetimeCursor, now: datetime) -> datetime:
    """Return the last point in time that a read at `now` requests."""
    end: datetime | None = None
    for window in cursor.windows(None, now):
        end = cursor.timestamp(window.end)
    return end or now


def _distinct(schema: JsonSchema, name: str, part: str, number: int) -> JsonValue:
    """Return a value that no other record of the same name has, except for enums and booleans."""
    serial = number + 1 + (crc32(f"{name}{part}".encode()) % _GREATEST_SERIAL * _PER_SERIAL if part else 0)
    kinds = kinds_of(schema)
    if schema.get("enum") or "boolean" in kinds:
        return example_of(schema, name, Random(serial))  # noqa: S311 - data of tests
    if "string" not in kinds and ("integer" in kinds or "number" in kinds):
        return serial
    match schema.get("format"):
        case "uuid":
            return str(UUID(int=Random(f"{name}{serial}").getrandbits(128), version=4))  # noqa: S311 - data of tests
        case "date-time" | "date" as form:
            timestamp = datetime(2024, 1, 1, tzinfo=UTC) + timedelta(days=number)
            return timestamp.strftime("%Y-%m-%d" if form == "date" else "%Y-%m-%dT%H:%M:%SZ")
        case _:
            slug = "".join(letter if letter.isalnum() else "-" for letter in name.lower())
            return f"{slug}-{serial}"


def _fits(choices: Choices, schema: JsonSchema) -> bool:
    return not any(mismatches(value, schema_at(schema, at)) for at, values in choices.items() for value in values)


def put(record: JsonObject, path: Sequence[str], value: JsonValue) -> None:
    """Set the value at a path of a record; parts of the path that are not objects become objects."""
    *outer, last = path
    for name in outer:
        inner = record.get(name)
        record[name] = record = inner if isinstance(inner, dict) else {}
    record[last] = value


def without(record: JsonObject, path: Sequence[str]) -> JsonObject:
    """Return the record without the value at a path."""
    name, *rest = path
    inner = record.get(name)
    if rest:
        return {**record, name: without(inner, rest)} if isinstance(inner, dict) else record
    return {key: value for key, value in record.items() if key != name}


def schema_at(schema: JsonSchema, path: Sequence[str]) -> JsonSchema:
    """Return the part of a schema for the value at a path of a record."""
    for name in path:
        schema = as_object(properties_of(schema).get(name))
    return schema
