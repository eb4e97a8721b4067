import json
import subprocess
import sys
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from cdk import Json
from connectors.shop.api import serving
from connectors.shop.backend import Backend, NoSuchPage, Sizes

SMALL = Sizes(products=120, orders=60, customers=3, visits=50)


def fetch(address: str, path: str) -> Json:
    with urlopen(f"{address}{path}") as answer:  # noqa: S310 - our own server
        return json.loads(answer.read())


def test_a_shop_holds_the_same_records_at_every_start() -> None:
    first, second = (Backend(SMALL).get("/orders", {"page": "2"}) for _ in range(2))

    assert first == second
    assert len(first["orders"]) == 10


def test_both_ends_of_a_stretch_of_orders_count() -> None:
    shop = Backend(SMALL)
    moments = [order["updated_at"] for order in shop.get("/orders", {})["orders"]]

    found = shop.get("/orders", {"since": moments[4], "until": moments[8]})["orders"]

    assert [order["id"] for order in found] == [5, 6, 7, 8, 9, 10]


def test_visits_name_the_next_page_until_the_last() -> None:
    shop = Backend(SMALL)
    cursor: str | None = "0"
    ids: list[str] = []
    while cursor is not None:
        page = shop.get("/customers/2/visits", {"cursor": cursor})
        ids += [visit["id"] for visit in page["visits"]]
        cursor = page["next_cursor"]

    assert [f"2-{i}" for i in range(1, 51)] == ids


@pytest.mark.parametrize("path", ["/", "/customers/9/visits", "/customers/x/visits", "/orders/1"])
def test_an_address_without_meaning_is_refused(path: str) -> None:
    with pytest.raises(NoSuchPage):
        Backend(SMALL).get(path, {})


def test_what_was_served_is_counted_and_repetition_apart() -> None:
    shop = Backend(SMALL)
    shop.get("/products", {"page": "1"})
    shop.get("/products", {"page": "3"})
    shop.get("/products", {"page": "3"})
    shop.get("/products", {"page": "4"})

    assert shop.stats()["products"] == {"records": 120, "pages": 4, "rows": 90, "pages_again": 1}


def test_the_api_takes_in_more_records() -> None:
    visit = {"id": "4-1", "customer_id": 4, "visited_at": "2024-01-01T00:00:00Z"}
    body = json.dumps({"customers": [{"id": 4}], "visits": [visit]}).encode()

    with serving(Backend(SMALL)) as address:
        with urlopen(Request(f"{address}/_add", body, method="POST")):  # noqa: S310 - our own server
            pass

        assert [visit] == fetch(address, "/customers/4/visits")["visits"]


def test_the_api_refuses_every_nth_request_when_told_to() -> None:
    with serving(Backend(SMALL), refuse_every=2) as address:
        fetch(address, "/products")
        with pytest.raises(HTTPError) as refused:
            fetch(address, "/products")
        refused.value.close()

    assert refused.value.code == 429
    assert refused.value.headers["Retry-After"] == "1"


def test_the_api_says_where_it_listens(tmp_path: Path) -> None:
    port_file = tmp_path / "port"
    command = [sys.executable, "-m", "connectors.shop.api", "--port", "0", "--port-file", str(port_file), "--orders=7"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        stats = fetch(address, "/_stats")
        process.terminate()

    assert stats["orders"]["records"] == 7
    assert address == f"http://127.0.0.1:{port_file.read_text()}"
