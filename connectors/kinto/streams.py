"""The streams of Kinto: buckets, their collections, and the records in those.

Each is read by `last_modified`, oldest first, with tombstones. What was seen on Kinto 26.5 and decided it:

- `_since` always goes along, also as 0 on a first read: without it Kinto leaves tombstones out, so a record deleted
  while it is being read would vanish without a trace if a later change moves the cursor past its tombstone.
- `_sort=last_modified,id`, because timestamps repeat: importers may write their own, and Kinto keeps those that lie in
  the past as they are. Of five records with one timestamp, pages of two sorted by `last_modified` alone gave two, as
  the next page starts after the value of the last record. With the id as a tie-break they gave five.
- The next page is asked for by its token, which holds the `last_modified` and the id of the last record and never
  expires. Pages therefore do not shift when records change in between: a record that changes moves to the end and comes
  (again) in its new version, its tombstone likewise.
- A read that was cut resumes at its token, not at the `last_modified` it reached (the cursor is not `ordered`), as that
  would lose records with the same timestamp. The cursor moves when a collection is read to its end, and `_since`
  excludes the value itself: an unchanged collection brings nothing.
- A read ends when it has caught up with those who write; it has no upper bound.
- The PostgreSQL backend (read in its `schema.sql`, not tried) gives a record its timestamp when it is written and shows
  it when the transaction commits, without a lock between writers. `lookback_seconds` makes the next read begin that
  much earlier; the memory backend needs none.

What Kinto does not tell anybody: a record written with a `last_modified` of the past after that time was read; the
records of a deleted collection, whose tombstones go with it (the collection has one of its own); tombstones that were
purged.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from cdk import (
    ConfigError,
    CredentialsError,
    Forbidden,
    Item,
    Json,
    JsonSchema,
    NotFound,
    Partition,
    Record,
    Slice,
    list_partitions,
    parent_partitions,
)
from cdk.rest import Authenticator, Basic, Bearer, HttpStream, Response
from connectors.kinto.cursor import LastModified
from connectors.kinto.pages import NextPage

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DELETED_AT = "_ab_cdc_deleted_at"
_TOMBSTONE = {"id", "last_modified", "deleted"}


def _schema(**parents: str) -> JsonSchema:
    """The schema of an object: what Kinto adds to it, the ids of its parents, and whatever people put in."""
    ids = {name: {"type": "string", "description": text} for name, text in parents.items()}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "additionalProperties": True,
        "required": [*ids, "id", "last_modified"],
        "properties": {
            **ids,
            "id": {"type": "string"},
            "last_modified": {"type": "integer", "description": "Milliseconds since 1970, and the object's version"},
            "deleted": {"type": ["null", "boolean"], "description": "True for a tombstone"},
            _DELETED_AT: {
                "type": ["null", "string"],
                "format": "date-time",
                "description": "When the object was deleted",
            },
        },
    }


class KintoStream(HttpStream):
    """Something a Kinto server answers: where it is, and how to sign in."""

    @property
    def url_base(self) -> str:
        """The server's address, up to the version."""
        return str(self.config["server"]).rstrip("/")

    def authenticator(self) -> Authenticator | None:
        match self.config.get("auth"):
            case {"type": "basic", "username": username, "password": password}:
                return Basic(username, password)
            case {"type": "bearer", "token": token}:
                return Bearer(token)
            case None:
                return None
            case _:
                raise ConfigError(
                    "auth: found neither form of it, expected "
                    '{"type": "basic", "username": ..., "password": ...} or {"type": "bearer", "token": ...}'
                )


class ServerInfo(KintoStream):
    """One record: what a server says of itself, and of the user who asks."""

    def path(self, slice: Slice) -> str:
        return "/"


class Objects(KintoStream):
    """A list of Kinto objects. A deleted one comes as a row of its id, `deleted` and `_ab_cdc_deleted_at`.

    The ids of the parents are added to each; a field of that name in the object itself is kept with `_` before it.
    """

    records_path = ("data",)
    paginator = NextPage()
    cursor = LastModified()

    def __init__(self, config: Mapping[str, Json] | None = None) -> None:
        super().__init__(config)
        self.cursor = LastModified(round(1000 * self.config.get("lookback_seconds", 0)))

    def params(self, slice: Slice) -> Mapping[str, Json]:
        assert slice.window is not None
        return {"_since": slice.window.start, "_sort": "last_modified,id", "_limit": self.config.get("page_size", 1000)}

    def parse(self, response: Response, slice: Slice) -> Sequence[Record]:
        # With `Backoff` a busy server asks for a pause, on answers that are no errors too. It is taken at once, as the
        # next request may be another stream's.
        if pause := _seconds(response.headers.get("Backoff")):
            self.sleep(pause)
        return [_row(record, slice.partition) for record in super().parse(response, slice)]

    def read_records(self, slice: Slice) -> Iterator[Item]:
        try:
            yield from super().read_records(slice)
        except (NotFound, Forbidden, CredentialsError):
            # So answers Kinto when a collection or bucket was deleted after it was listed: which of the three depends
            # on the user's other permissions.
            if slice.partition in self.partitions():
                raise


class Buckets(Objects):
    """The buckets that the user may list, or those of them that the config names."""

    primary_key = "id"
    schema = _schema()

    def path(self, slice: Slice) -> str:
        return "/buckets"

    def params(self, slice: Slice) -> Mapping[str, Json]:
        # Kinto reads the ids as JSON where it can: the bucket 42 must be written "42".
        names = ",".join(f'"{name}"' for name in self.config.get("buckets", ()))
        return {**super().params(slice), "in_id": names or None}


class Collections(Objects):
    """The collections of each bucket."""

    primary_key = ("bucket", "id")
    schema = _schema(bucket="The bucket's id")

    def partitions(self) -> Iterable[Partition]:
        # A bucket may be readable without being listed, for those whom only its collections are shared with.
        if names := self.config.get("buckets"):
            return list_partitions("bucket", names)
        return _living(parent_partitions(Buckets(self.config), bucket="id"))

    def path(self, slice: Slice) -> str:
        return f"/buckets/{slice.partition['bucket']}/collections"


class Records(Objects):
    """The records of each collection."""

    primary_key = ("bucket", "collection", "id")
    schema = _schema(bucket="The bucket's id", collection="The collection's id")

    def partitions(self) -> Iterable[Partition]:
        return _living(parent_partitions(Collections(self.config), collection="id"))

    def path(self, slice: Slice) -> str:
        bucket, collection = slice.partition["bucket"], slice.partition["collection"]
        return f"/buckets/{bucket}/collections/{collection}/records"


def _living(partitions: Iterable[Partition]) -> Iterator[Partition]:
    """The partitions whose parent is no tombstone."""
    return (partition for partition in partitions if _DELETED_AT not in partition.extra)


def _row(record: Record, parents: Mapping[str, Json]) -> Record:
    row = {**record, **parents}
    for name in parents:
        if name in record:
            row[f"_{name}"] = record[name]
    # A living object may have a field `deleted` too, next to others.
    if record.get("deleted") is True and record.keys() == _TOMBSTONE:
        moment = _EPOCH + timedelta(milliseconds=record["last_modified"])
        row[_DELETED_AT] = moment.isoformat(timespec="milliseconds")
    return row


def _seconds(text: str | None) -> int:
    return int(text) if text is not None and text.isdecimal() else 0
