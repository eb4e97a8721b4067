"""The connectors that have a cassette, on that alone: what every connector must do, and syncs that are killed."""

from base64 import b64encode
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import ClassVar

import pytest

from cdk import Json
from cdk.sources.discovery import find_source
from cdk.testing import Cassette, ConnectorSuite
from cdk.testing.cassettes import record
from cdk.testing.cassettes.interactions import save
from cdk.testing.conformance.sync_checks import check_spark
from cdk.testing.proving.proof import prove
from cdk.testing.proving.trials import Subject
from connectors.buildbot import source as buildbot
from connectors.datasette import source as datasette
from connectors.kinto import Kinto
from connectors.prometheus import Prometheus
from tests.connectors.kinto.conftest import PASSWORD, USER
from tests.connectors.record_cassettes import CONNECTORS, SERVERS
from tests.testing.cassettes.decoding import spelled

CASSETTES = {name: CONNECTORS / name / "cassette.yaml" for name in ("buildbot", "datasette", "kinto", "prometheus")}


class TestBuildbot(ConnectorSuite):
    source = buildbot
    cassette = CASSETTES["buildbot"]


class TestDatasette(ConnectorSuite):
    source = datasette
    cassette = CASSETTES["datasette"]


class TestKinto(ConnectorSuite):
    source = Kinto
    cassette = CASSETTES["kinto"]
    config: ClassVar[Mapping[str, Json]] = {
        **Cassette(cassette).config,
        "auth": {"type": "basic", "username": "reader", "password": "another password"},
    }


class TestPrometheus(ConnectorSuite):
    source = Prometheus
    cassette = CASSETTES["prometheus"]


@pytest.mark.spark
@pytest.mark.parametrize("suite", [TestBuildbot, TestDatasette, TestKinto, TestPrometheus])
def test_tasks_on_spark_bring_what_this_process_does(suite: type[ConnectorSuite]) -> None:
    check_spark(suite().readable)


@pytest.mark.parametrize("name", CASSETTES)
def test_syncs_that_are_killed_lose_and_repeat_nothing(name: str) -> None:
    cassette = Cassette(CASSETTES[name])

    proof = prove(Subject(partial(find_source, name), cassette.config, cassette), at_commits=1, at_random=0)

    assert proof.proven, [*proof.problems, *(kill.problems for kill in proof.kills)]
    assert len(proof.kills) == 1
    assert min(proof.rows.values()) > 0


@pytest.mark.parametrize("name", CASSETTES)
def test_no_credentials_are_in_a_cassette_however_they_are_encoded(name: str) -> None:
    text = CASSETTES[name].read_text()
    recorded = spelled([text, *(one.content.decode() for one in Cassette(CASSETTES[name]).recording.interactions)])

    assert PASSWORD not in recorded
    assert "authorization:" not in text.lower()


def test_a_recording_of_a_server_that_wants_a_password_holds_it_in_no_encoding(tmp_path: Path) -> None:
    path = tmp_path / "cassette.yaml"
    with SERVERS["kinto"]() as config:
        save(path, record(Kinto(), config))
    recorded = spelled([path.read_text(), *(one.content.decode() for one in Cassette(path).recording.interactions)])

    assert PASSWORD in spelled([b64encode(f"{USER}:{PASSWORD}".encode()).decode()])
    assert PASSWORD not in recorded
