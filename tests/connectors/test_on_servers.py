"""The connectors on their real servers: what every connector must do, and syncs that are killed, of a new recording."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import ClassVar

import pytest

from cdk.sources.discovery import find_source
from cdk.testing import Cassette, ConnectorSuite
from cdk.testing.cassettes import record
from cdk.testing.cassettes.interactions import save
from cdk.testing.proving.proof import prove
from cdk.testing.proving.trials import Subject
from tests.connectors.record_cassettes import SERVERS
from tests.servers.test_prometheus import pytestmark as needs_prometheus

SUITE = sorted(name for name in dir(ConnectorSuite) if name.startswith("test_"))
NAMES = [pytest.param(name, marks=needs_prometheus if name == "prometheus" else ()) for name in SERVERS]


@pytest.fixture(scope="module", params=NAMES)
def suite(request: pytest.FixtureRequest) -> Iterator[ConnectorSuite]:
    """The suite of a connector, whose requests go to its server."""
    name: str = request.param
    with SERVERS[name]() as served:

        class OnServer(ConnectorSuite):
            source = name
            config: ClassVar = served

        yield OnServer()


@pytest.mark.parametrize("test", SUITE)
def test_what_every_connector_must_do(suite: ConnectorSuite, test: str) -> None:
    getattr(suite, test)()


def test_syncs_of_what_was_just_recorded_lose_and_repeat_nothing_when_killed(
    suite: ConnectorSuite, tmp_path: Path
) -> None:
    path = tmp_path / "cassette.yaml"
    save(path, record(find_source(str(suite.source)), suite.config))
    cassette = Cassette(path)

    proof = prove(
        Subject(partial(find_source, str(suite.source)), cassette.config, cassette), at_commits=1, at_random=0
    )

    assert proof.proven, [*proof.problems, *(kill.problems for kill in proof.kills)]
    assert min(proof.rows.values()) > 0
