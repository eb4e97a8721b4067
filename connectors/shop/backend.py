"""The backend of the shop's API: the records, the responses to requests, and statistics of what was served."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Lock

from cdk import Json, Record
from connectors.shop import records

PAGE_SIZE = 50
VISITS_PAGE_SIZE = 20


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many records a shop starts with; visits are per customer."""

    products: int = 3000
    orders: int = 3000
    customers: int = 40
    visits: int = 60


USUAL = Sizes()


class NoSuchPage(Exception):
    """Raised when the path or one of its parameters is unknown."""


class Backend:
    """The records, and a count of what was served of them. Safe to use from several threads."""

    def __init__(self, sizes: Sizes = USUAL) -> None:
        self._lock = Lock()
        self._products = list(records.products(sizes.products))
        self._orders = list(records.orders(sizes.orders))
        self._customers = list(records.customers(sizes.customers))
        self._visits = {c["id"]: list(records.visits(c["id"], sizes.visits)) for c in self._customers}
        self._pages: Counter[str] = Counter()
        self._rows: Counter[str] = Counter()
        self._pages_again: Counter[str] = Counter()
        self._asked: set[str] = set()

    def get(self, path: str, query: Mapping[str, str]) -> Json:
        """Return the response to a GET request. Raises NoSuchPage: when the path or a parameter is unknown."""
        if path == "/_stats":
            return self.stats()
        with self._lock:
            kind, answer = self._find(path, query)
            question = f"{path} {sorted(query.items())}"
            self._pages[kind] += 1
            self._rows[kind] += len(answer[kind])
            self._pages_again[kind] += question in self._asked
            self._asked.add(question)
            return answer

    def add(self, more: Mapping[str, Sequence[Record]]) -> None:
        """Add records of any kind. Visits of a new customer may be older than those of others."""
        with self._lock:
            self._products.extend(more.get("products", ()))
            self._orders = sorted([*self._orders, *more.get("orders", ())], key=lambda order: order["updated_at"])
            for customer in more.get("customers", ()):
                self._customers.append(customer)
                self._visits[customer["id"]] = []
            for visit in more.get("visits", ()):
                theirs = self._visits[visit["customer_id"]]
                theirs.append(visit)
                theirs.sort(key=lambda visit: visit["visited_at"])

    def stats(self) -> dict[str, dict[str, int]]:
        """Return by kind the `records` it has, and the `pages`, `rows` and repeated `pages_again` that were served."""
        with self._lock:
            held = {
                "products": len(self._products),
                "orders": len(self._orders),
                "customers": len(self._customers),
                "visits": sum(map(len, self._visits.values())),
            }
            return {
                kind: {
                    "records": records,
                    "pages": self._pages[kind],
                    "rows": self._rows[kind],
                    "pages_again": self._pages_again[kind],
                }
                for kind, records in held.items()
            }

    def _find(self, path: str, query: Mapping[str, str]) -> tuple[str, Json]:
        match path.strip("/").split("/"):
            case ["products"]:
                return "products", _numbered("products", self._products, query)
            case ["orders"]:
                since, until = query.get("since", ""), query.get("until", "9999")
                found = [order for order in self._orders if since <= order["updated_at"] <= until]
                return "orders", _numbered("orders", found, query)
            case ["customers"]:
                return "customers", _numbered("customers", self._customers, query)
            case ["customers", id, "visits"] if (customer := _number(id)) in self._visits:
                return "visits", _visits(self._visits[customer], query)
            case _:
                raise NoSuchPage(f"there is nothing at {path}")


def _numbered(kind: str, found: Sequence[Record], query: Mapping[str, str]) -> Json:
    end = _number(query.get("page", "1")) * PAGE_SIZE
    return {kind: found[max(end - PAGE_SIZE, 0) : end], "has_more": end < len(found)}


def _visits(theirs: Sequence[Record], query: Mapping[str, str]) -> Json:
    since = query.get("since", "")
    found = [visit for visit in theirs if visit["visited_at"] >= since]
    start = _number(query.get("cursor", "0"))
    end = start + VISITS_PAGE_SIZE
    return {"visits": found[start:end], "next_cursor": str(end) if end < len(found) else None}


def _number(text: str) -> int:
    if not text.isdecimal():
        raise NoSuchPage(f"{text!r} is no number")
    return int(text)
