"""The shop's streams: one for each kind of stream that APIs have."""

from collections.abc import Iterator, Mapping
from datetime import timedelta

from cdk import DatetimeCursor, Json, Partition, Slice, parent_partitions
from cdk.rest import CursorToken, HttpStream, PageNumber


class ShopStream(HttpStream):
    """The base of all streams: the shop's address, and the primary key `id`."""

    primary_key = "id"

    @property
    def url_base(self) -> str:
        return str(self.config["base_url"])


class Products(ShopStream):
    """Read in full, page by page; an interrupted read resumes at its page."""

    paginator = PageNumber(more=["has_more"])
    records_path = ("products",)

    def path(self, slice: Slice) -> str:
        return "/products"


class Orders(ShopStream):
    """Read day by day, and only what changed since the last read.

    The shop closed at the end of January 2024; the cursor of a shop that is still open has no `end`.
    """

    paginator = PageNumber(more=["has_more"])
    records_path = ("orders",)
    cursor = DatetimeCursor(
        "updated_at",
        start="2024-01-01T00:00:00Z",
        end="2024-01-31T00:00:00Z",
        step=timedelta(days=1),
        granularity=timedelta(seconds=1),
    )

    def path(self, slice: Slice) -> str:
        return "/orders"

    def params(self, slice: Slice) -> Mapping[str, Json]:
        assert slice.window is not None
        return {"since": slice.window.start, "until": slice.window.end}


class Customers(ShopStream):
    """Read in full; also the parents of visits."""

    paginator = PageNumber(more=["has_more"])
    records_path = ("customers",)

    def path(self, slice: Slice) -> str:
        return "/customers"


class Visits(ShopStream):
    """Read customer by customer, each from its own position: a new customer's history is read in full."""

    paginator = CursorToken("next_cursor", param="cursor")
    records_path = ("visits",)
    cursor = DatetimeCursor("visited_at", start="2024-01-01T00:00:00Z")

    def partitions(self) -> Iterator[Partition]:
        return parent_partitions(Customers(self.config), customer="id")

    def path(self, slice: Slice) -> str:
        return f"/customers/{slice.partition['customer']}/visits"

    def params(self, slice: Slice) -> Mapping[str, Json]:
        assert slice.window is not None
        return {"since": slice.window.start}
