"""The streams of Kinto: buckets, their collections, and the records in those.

Each is read by `last_modified`, oldest first, with tombstones. Observations on Kinto 26.5 that shaped it:

- `_since` is always sent, even as 0 on a first read: without it Kinto omits tombstones, so a record that is deleted
  during the read would vanish without a trace if a later change moves the cursor past its tombstone.
- `_sort=last_modified,id`, because timestamps repeat: importers may write their own, and Kinto preserves those that lie
  in the past. Of five records with one timestamp, pages of two sorted by `last_modified` alone returned two, because
  the next page starts after the value of the last record. With the id as a tie-break they returned five.
- The next page is requested by its token, which holds the `last_modified` and the id of the last record and never
  expires. So pages do not shift when records change meanwhile: a changed record moves to the end and is returned
  (again) in its new version, and so is its tombstone.
- An interrupted read resumes at its token, not at the `last_modified` it reached (the cursor is not `ordered`), because
  that would lose records with the same timestamp. The cursor moves when a collection was read to its end, and `_since`
  excludes the value itself: an unchanged collection returns nothing.
- A read ends when it has caught up with the writers; it has no upper bound.
- The PostgreSQL backend (read in its `schema.sql`, not tried) gives a record its timestamp when it is written and shows
  it when the transaction commits, without a lock between writers. `lookback_seconds` makes the next read start that
  much earlier; the memory backend needs none.

What Kinto never reports: a record written with a past `last_modified` after that time was read; the records of a
deleted collection, whose tombstones are deleted with it (the collection has its own tombstone); purged tombstones.
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
    """Return the schema of an object: Kinto's own fields, the ids of its parents, and any fields that users add."""
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
    """A stream of a Kinto server: its address and its authentication."""

    @property
    def url_base(self) -> str:
        """The server's address, including the API version."""
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
                    "auth: expected one of two forms: "
                    '{"type": "basic", "username": ..., "password": ...} or {"type": "bearer", "token": ...}'
                )


class ServerInfo(KintoStream):
    """A single record with information on the server and on the authenticated user."""

    def path(self, slice: Slice) -> str:
        return "/"


class Objects(KintoStream):
    """A list of Kinto objects. A deleted object becomes a row with its id, `deleted` and `_ab_cdc_deleted_at`.

    The ids of the parents are added to each object; if the object has a field of the same name, it is renamed with a
    leading `_`.
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
        # A busy server requests a pause with `Backoff`, also in successful responses. The pause is taken at once,
        # because the next request may be another stream's.
        if pause := _seconds(response.headers.get("Backoff")):
            self.sleep(pause)
        return [_row(record, slice.partition) for record in super().parse(response, slice)]

    def read_records(self, slice: Slice) -> Iterator[Item]:
        try:
            yield from super().read_records(slice)
        except (NotFound, Forbidden, CredentialsError):
            # Kinto's responses when a collection or bucket was deleted after it was listed; which of the three depends
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
        # Kinto parses ids as JSON where possible: the bucket 42 must be written "42".
        names = ",".join(f'"{name}"' for name in self.config.get("buckets", ()))
        return {**super().params(slice), "in_id": names or None}


class Collections(Objects):
    """The collections of each bucket."""

    primary_key = ("bucket", "id")
    schema = _schema(bucket="The bucket's id")

    def partitions(self) -> Iterable[Partition]:
        # A bucket may be readable without being listed, for users with whom only its collections are shared.
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
    """Return the partitions whose parent is not a tombstone."""
    return (partition for partition in partitions if _DELETED_AT not in partition.extra)


def _row(record: Record, parents: Mapping[str, Json]) -> Record:
    row = {**record, **parents}
    for name in parents:
        if name in record:
            row[f"_{name}"] = record[name]
    # An object that is not deleted may have a field `deleted`, too, but together with other fields.
    if record.get("deleted") is True and record.keys() == _TOMBSTONE:
        timestamp = _EPOCH + timedelta(milliseconds=record["last_modified"])
        row[_DELETED_AT] = timestamp.isoformat(timespec="milliseconds")
    return row


def _seconds(text: str | None) -> int:
    return int(text) if text is not None and text.isdecimal() else 0
