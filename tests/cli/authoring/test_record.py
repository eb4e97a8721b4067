import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdk.testing.cassettes.interactions import Recording, save
from connectors.shop.api import serving
from connectors.shop.backend import Backend, Sizes
from tests.cli.conftest import CommandLine
from tests.worlds.table import rows

SIZES = Sizes(products=120, orders=600, customers=2, visits=25)


@pytest.fixture
def shop() -> Backend:
    return Backend(SIZES)


@pytest.fixture
def config(shop: Backend, tmp_path: Path) -> Iterator[str]:
    with serving(shop) as address:
        (tmp_path / "config.json").write_text(json.dumps({"base_url": address}))
        yield "config.json"


def test_a_recording_replays_in_read_and_sync_without_server_and_config(
    cli: CommandLine, config: str, shop: Backend, tmp_path: Path
) -> None:
    options = ("--connector", "shop", "--cassette", "shop.yaml")

    recorded = cli("record", *options, "--config", config, "--stream", "products", "--stream", "visits")
    asked = shop.stats()
    read = cli("read", *options, "--catalog", catalog(tmp_path, "products", "visits"))
    synced = cli("sync", *options, "--target", "tables", "--catalog", "catalog.json", "-q")

    assert (recorded.code, recorded.lines) == (0, ["shop.yaml: 10 responses of 24,096 bytes"])
    assert shop.stats() == asked
    assert (read.code, len(read.of_type("RECORD"))) == (0, 120 + 2 * 25)
    assert (synced.code, len(rows(tmp_path / "tables" / "visits"))) == (0, 2 * 25)


def test_a_request_that_was_not_recorded_ends_the_read_with_the_nearest_one(
    cli: CommandLine, config: str, tmp_path: Path
) -> None:
    options = ("--connector", "shop", "--cassette", "shop.yaml")
    cli("record", *options, "--config", config, "--stream", "products")

    read = cli("read", *options, "--catalog", catalog(tmp_path, "customers"))

    assert read.code == 1
    assert "/customers?page=1 is not among the 3 requests of the cassette shop.yaml" in "\n".join(read.lines)


def test_drift_compares_and_writes_nothing(cli: CommandLine, config: str, shop: Backend, tmp_path: Path) -> None:
    options = ("--connector", "shop", "--config", config, "--cassette", "shop.yaml", "--stream", "products")
    cli("record", *options, "--sample", "3")
    file = (tmp_path / "shop.yaml").read_bytes()

    same = cli("record", *options, "--drift")
    shop.add({"products": [{"id": 121, "color": "blue"}]})
    other = cli("record", *options, "--drift")

    assert (same.code, same.lines) == (0, ["shop.yaml: as recorded"])
    assert (other.code, other.lines) == (1, ["GET /products: field products[].color is new (string)"])
    assert (tmp_path / "shop.yaml").read_bytes() == file


@pytest.mark.parametrize("stream", ["orders", "visits"])
def test_a_read_that_has_not_changed_is_as_recorded_however_it_was_recorded(
    cli: CommandLine, config: str, shop: Backend, stream: str
) -> None:
    shop.add({"customers": [{"id": number} for number in range(3, 9)]})
    options = ("--connector", "shop", "--config", config, "--stream", stream, "--cassette")
    ways = {"plain": ["--resumes", "0"], "resumed": [], "sampled": ["--sample", "3"], "more": ["--stream", "products"]}
    recorded = {name: cli("record", *options, name, *way).lines[0].split()[1] for name, way in ways.items()}

    assert int(recorded["resumed"]) > int(recorded["plain"])
    for name in ways:
        assert cli("record", *options, name, "--drift").lines == [f"{name}: as recorded"]


def test_a_missing_cassette_is_an_error_that_says_how_to_get_one(cli: CommandLine) -> None:
    ran = cli("read", "--connector", "shop", "--cassette", "no.yaml")

    assert ran.code == 2
    assert "no.yaml: found no cassette there, or an empty file; `spark-cdk record" in ran.stderr


BESIDE = """
import requests

from cdk import Page, PagedStream, Source
from connectors.shop.source import Shop


class Beside(PagedStream):
    primary_key = "id"
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}}

    def read_page(self, slice, token):
        page = token["page"] if token else 1
        answer = requests.get(self.config["base_url"] + "/products", {"page": page}, timeout=9).json()
        rows = [{"id": row["id"]} for row in answer["products"]]
        return Page(rows, {"page": page + 1} if answer["has_more"] else None)


class Both(Source):
    config_schema = Shop.config_schema

    def streams(self, config):
        return [Beside(config), *Shop().streams(config)]
"""


@pytest.mark.parametrize("drift", [[], ["--drift"]])
def test_what_sends_no_request_by_the_kit_is_not_recorded(
    cli: CommandLine, config: str, tmp_path: Path, drift: list[str]
) -> None:
    (tmp_path / "beside.py").write_text(BESIDE)
    save(tmp_path / "old.yaml", Recording([]))
    old = (tmp_path / "old.yaml").read_bytes()

    options = ("--connector", "beside.py", "--config", config, "--cassette", "old.yaml", "--stream", "beside")
    ran = cli("record", *options, *drift)

    assert (ran.code, ran.lines) == (1, [])
    assert "found no request by the kit but connections to 127.0.0.1:" in ran.stderr
    assert "beside.py:14, in read_page), expected some" in ran.stderr
    assert (tmp_path / "old.yaml").read_bytes() == old


def test_connections_beside_the_kit_are_warned_of_and_refused_in_a_replay(
    cli: CommandLine, config: str, shop: Backend, tmp_path: Path
) -> None:
    (tmp_path / "beside.py").write_text(BESIDE)
    options = ("--connector", "beside.py", "--cassette", "both.yaml")
    streams = catalog(tmp_path, "beside", "products")

    recorded = cli("record", *options, "--config", config, "--stream", "beside", "--stream", "products")
    asked = shop.stats()
    ran = cli("read", *options, "--catalog", streams)
    synced = cli("sync", *options, "--target", "tables", "--catalog", streams, "-q")

    assert recorded.code == 0
    assert "beside.py:14, in read_page) are not the kit's: they are not recorded, and refused" in recorded.stderr
    assert (ran.code, synced.code) == (1, 1)
    assert "that the kit does not open" in synced.stderr
    assert {record["record"]["stream"] for record in ran.of_type("RECORD")} == {"products"}
    assert len(rows(tmp_path / "tables" / "products")) == 120
    assert shop.stats() == asked


def catalog(folder: Path, *names: str) -> str:
    streams = [{"stream": {"name": name, "json_schema": {}}, "sync_mode": "full_refresh"} for name in names]
    (folder / "catalog.json").write_text(json.dumps({"streams": streams}))
    return "catalog.json"
