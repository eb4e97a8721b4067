"""The connectors that have a cassette, on that alone: what every connector must do, and syncs that are killed."""

from collections.abc import Mapping
from functools import partial
from typing import ClassVar

import pytest

from cdk import Json
from cdk.sources.discovery import find_source
from cdk.testing import Cassette, ConnectorSuite
from cdk.testing.conformance.sync_checks import check_spark
from cdk.testing.proving.proof import prove
from cdk.testing.proving.trials import Subject
from connectors.buildbot import source as buildbot
from connectors.datasette import source as datasette
from connectors.kinto import Kinto
from connectors.prometheus import Prometheus
from tests.connectors.record_cassettes import CONNECTORS

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
def test_no_credentials_are_in_a_cassette(name: str) -> None:
    text = CASSETTES[name].read_text()

    assert "correct horse" not in text
    assert not any(header in text.lower() for header in ("authorization:", "basic cmvhzgvy"))
