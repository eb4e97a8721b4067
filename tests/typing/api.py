"""A connector as an author writes it. Nothing runs here: mypy reads it as a user's code."""
# ruff: noqa: ARG002 - signatures are written out as they are

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import assert_never, assert_type

import cdk
from cdk.rest import Bearer, PageNumber, RestSource, resource


class Users(cdk.PagedStream):
    primary_key = "id"

    def read_page(self, slice: cdk.Slice, token: Mapping[str, cdk.Json] | None) -> cdk.Page:
        page = token["page"] if token else 1
        return cdk.Page([{"id": page, "of": slice.partition.get("team")}], {"page": page + 1} if page < 9 else None)


class Plain(cdk.Stream):
    primary_key = ("org", ("owner", "id"))

    def read_records(self, slice: cdk.Slice) -> Iterator[cdk.Item]:
        yield {"id": 1}
        yield cdk.Checkpoint({"after": 1})
        yield cdk.Page([{"id": 2}], next=None)


class ByHand(cdk.StateMixin):
    cursor_field = "version"

    def read_records(self, slice: cdk.Slice) -> Iterator[cdk.Item]:
        self.state = {"version": self.state.get("version", 0) + 1}
        yield {"version": 1}


class Orders(cdk.Stream):
    primary_key = ["id"]  # noqa: RUF012 - the way it is usually written
    supports_checkpointing = True
    cursor = cdk.DatetimeCursor("updated_at", start=datetime(2024, 1, 1, tzinfo=UTC), step=timedelta(days=30))

    def partitions(self) -> Iterable[cdk.Partition]:
        return cdk.product(cdk.list_partitions("region", ["eu"]), cdk.parent_partitions(Users(), user="id"))

    def read_records(self, slice: cdk.Slice) -> Iterator[cdk.Item]:
        match slice.start:
            case cdk.Start():
                token: Mapping[str, cdk.Json] | None = None
            case cdk.Checkpoint(cursor):
                token = cursor
            case cdk.Done():
                return
            case _:
                assert_never(slice.start)
        assert_type(slice.window, cdk.Window | None)
        assert_type(slice.extra, Mapping[str, cdk.Json])
        if slice.window is not None:
            yield {"from": slice.window.start, "to": slice.window.end, "token": token}


class Items(cdk.Stream):
    cursor = cdk.CountCursor("seq", ordered=True)

    def partitions_since(self, parents: Mapping[str, cdk.StreamState]) -> Iterable[cdk.Partition | cdk.ParentState]:
        return cdk.following_partitions(Orders(), parents, order="id")

    def read_records(self, slice: cdk.Slice) -> Iterator[cdk.Item]:
        if slice.partition["order"] == 0:
            raise cdk.RateLimited("slow down", wait=60)
        yield {"seq": 1}


class Own(cdk.PageCheckpointReader):
    """A reader of an author's own, plugged in."""

    def next(self) -> cdk.Slice | None:
        return super().next()


class Plugged(Plain):
    def slices(self, partition: cdk.Partition, position: cdk.Position, now: datetime) -> cdk.PartitionReader:
        return Own(partition, position)

    def checkpoint_reader(self, state: cdk.StreamState) -> cdk.CheckpointReader:
        return Own(cdk.Partition.of(), state.of(cdk.Partition.of()))


class Shop(cdk.Source):
    name = "shop"
    stream_classes = (Users, Plain, ByHand, Orders, Items, Plugged)

    def check(self, config: Mapping[str, cdk.Json]) -> None:
        if "key" not in config:
            raise cdk.CredentialsError("no key")


def reader_of(stream: cdk.Stream) -> cdk.StreamState | None:
    reader = stream.checkpoint_reader(cdk.StreamState())
    while (slice := reader.next()) is not None:
        reader.observe(slice, cdk.Done())
    return reader.get_checkpoint()


assert_type(
    RestSource(
        "{config.url}",
        resource("orgs", "/orgs", primary_key="id", record_filter={"state": ["open", None], "size": 3}),
        resource(
            "repos",
            "/orgs/{orgs.id}/repos",
            records_path=("data", "repos"),
            params={"since": "{window.start}", "kind": ["a", 1], "all": True},
            cursor=lambda config: cdk.DatetimeCursor("updated_at", start=config["start"]),
            paginator=PageNumber(size=10),
        ),
        resource("stars", "/stars", recods_path="data"),  # type: ignore[call-arg]
        auth=Bearer("{config.token}"),
        config={"size": {"type": "integer", "default": 3}},
    ).streams({}),
    Sequence[cdk.Stream],
)
