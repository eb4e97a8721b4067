"""The shop's records: identical at every start, spread over the thirty days in which the shop was open."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from cdk import Record

OPENED = datetime(2024, 1, 1, tzinfo=UTC)
OPEN_FOR = timedelta(days=30)

_THINGS = ("kettle", "lamp", "blanket", "bookend", "teapot", "mirror", "basket")
_COLOURS = ("red", "green", "blue", "white", "black")
_NAMES = ("Ada", "Grace", "Alan", "Edsger", "Barbara", "Donald", "Frances", "Niklaus", "Radia", "Tony")
_CITIES = ("Lisbon", "Oslo", "Vienna", "Riga", "Ghent", "Turin")
_PAGES = ("/", "/search", "/cart", "/sale", "/help")


def products(count: int) -> Iterator[Record]:
    """Yield products 1 to `count`."""
    for i in range(1, count + 1):
        colour, thing = _COLOURS[i % len(_COLOURS)], _THINGS[i % len(_THINGS)]
        yield {
            "id": i,
            "name": f"{colour} {thing}",
            "price": 5 + i * 7 % 200 / 4,
            "dimensions": {"width_cm": 10 + i % 50, "height_cm": 5 + i % 30},
            "tags": [colour, thing],
        }


def orders(count: int) -> Iterator[Record]:
    """Yield orders 1 to `count`, oldest first; two at a time share a timestamp, as in a busy shop."""
    for i in range(count):
        yield {
            "id": i + 1,
            "customer_id": i % 40 + 1,
            "status": "shipped" if i % 4 else "returned",
            "total": 20 + i * 13 % 900 / 4,
            "updated_at": _timestamp(OPEN_FOR * (i // 2 * 2) / count),
            "address": {"city": _CITIES[i % len(_CITIES)], "zip": f"{10000 + i * 37 % 90000}"},
            "items": [{"product_id": i % 97 + 1, "quantity": 1 + i % 3}],
        }


def customers(count: int) -> Iterator[Record]:
    """Yield customers 1 to `count`."""
    for i in range(1, count + 1):
        name = _NAMES[i % len(_NAMES)]
        yield {
            "id": i,
            "name": name,
            "email": f"{name.lower()}{i}@shop.example",
            "joined_at": _timestamp(timedelta(minutes=i)),
            "address": {"city": _CITIES[i % len(_CITIES)], "zip": f"{10000 + i * 91 % 90000}"},
            "interests": [thing for thing, _ in pairwise(_THINGS) if i % len(thing)],
        }


def visits(customer: int, count: int) -> Iterator[Record]:
    """Yield the visits of one customer, oldest first."""
    for i in range(count):
        yield {
            "id": f"{customer}-{i + 1}",
            "customer_id": customer,
            "visited_at": _timestamp(OPEN_FOR * i / count + timedelta(minutes=customer)),
            "device": {"kind": "phone" if i % 3 else "desktop", "touch": bool(i % 3)},
            "pages": list(_PAGES[: 1 + i % len(_PAGES)]),
        }


def _timestamp(after: timedelta) -> str:
    return (OPENED + after).strftime("%Y-%m-%dT%H:%M:%SZ")
