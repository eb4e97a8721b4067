"""The short version of `make crash`: each kind of process is killed, and other kinds of write mode."""

import random
from collections.abc import Callable
from functools import cache
from pathlib import Path

import orjson
import pytest

from cdk import Json
from cdk.lake.delta.receipt import RECEIPT
from connectors.shop.api import serving
from connectors.shop.backend import Sizes
from tests.spark.kill import MODES, UNDISTURBED, Failed, Trial, Undisturbed, Varied, round_of_kills
from tests.spark.kill_places import DRIVER, FORK, HAND_OVER, HERE, JVM, LOCAL, THREADED, WORKER, Place

SIZES = Sizes(products=600, orders=600, customers=14, visits=40)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Undisturbed]:
    """What syncs in a mode come to that nobody kills; once for all rounds of the mode."""
    return cache(lambda mode: Undisturbed(tmp_path_factory.mktemp(mode), mode, SIZES))


@pytest.mark.parametrize(
    ("mode", "place", "victims"),
    [
        pytest.param("merged", LOCAL, [JVM, WORKER], marks=pytest.mark.spark),
        pytest.param("append", HAND_OVER, [DRIVER], marks=pytest.mark.spark),
        # Processes without Spark: a kill costs a tenth.
        ("overwrite", HERE, [THREADED]),
        ("logged", HERE, [FORK]),
        ("parted", HERE, [FORK]),
        ("removed", HERE, [THREADED]),
        ("append", HERE, [THREADED]),
        ("merged", HERE, [FORK, FORK]),
    ],
)
@pytest.mark.timeout(900)  # syncs with a JVM each, on a machine that may be busy
def test_killed_syncs_lose_nothing_and_double_nothing(
    tmp_path: Path, undisturbed: Callable[[str], Undisturbed], mode: str, place: Place, victims: list[str]
) -> None:
    kills = round_of_kills(tmp_path, victims, random.Random(), undisturbed(mode), place)

    # On a busy machine a sync may end before the signal reaches it; its round is checked, and ends there.
    assert [kill.victim for kill in kills] == victims[: len(kills)]
    assert len(kills) == len(victims) or kills[-1].survived


def miscount(info: dict[str, Json]) -> None:
    info[RECEIPT] = info[RECEIPT].replace('"read":', '"read":1')


def forget(info: dict[str, Json]) -> None:
    del info[RECEIPT]


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (miscount, "contradicts its receipt: found .* of read = staged .* skipped"),
        (forget, "without a receipt added or removed rows: version .* WRITE: .* rows more"),
    ],
)
@pytest.mark.parametrize("mode", MODES)
def test_a_receipt_that_is_wrong_or_missing_fails_the_campaign(
    tmp_path: Path, mode: str, damage: Callable[[dict[str, Json]], None], text: str
) -> None:
    shop = Varied(Sizes(products=60, orders=60, customers=2, visits=6))
    with serving(shop) as address:
        trial = Trial(tmp_path, shop, address, mode=mode, interval=UNDISTURBED)
        trial.sync_here()
        for log in (tmp_path / "tables" / trial.tables[-1] / "_delta_log").glob("*.json"):
            lines = [orjson.loads(line) for line in log.read_bytes().splitlines()]
            if any("add" in line for line in lines):
                damage(next(line["commitInfo"] for line in lines if "commitInfo" in line))
                log.write_bytes(b"\n".join(map(orjson.dumps, lines)))

        with pytest.raises(Failed, match=f"visits.*{text}"):
            trial.verify()
