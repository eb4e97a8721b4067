"""What a doctor finds out about a machine and the places of a pipeline."""

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from cdk import ConfigError, Slice, Source, Timeout
from cdk.authoring.doctor import Finding, machine_findings, pipeline_findings
from cdk.base.secret_masking import Secrets
from cdk.rest import Bearer, HttpStream
from cdk.sync.settings.pipeline_file import Pipeline
from cdk.testing import MockApi, MockClock, simulated

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
DATE = "Wed, 01 May 2024 12:00:30 GMT"


class Users(HttpStream):
    url_base = "https://api.test"

    def path(self, slice: Slice) -> str:  # noqa: ARG002
        return "/users"

    def authenticator(self) -> Bearer:
        return Bearer("token")


class Api(Source):
    stream_classes = (Users,)


Findings = dict[str, Finding]
Look = Callable[..., Findings]


def ample(_: Path) -> int:
    return 10**12


@pytest.fixture
def look(tmp_path: Path) -> Look:
    """What is found with an API, in a pipeline with some settings more."""

    def findings(api: MockApi, **more: object) -> Findings:
        file = tmp_path / "pipeline.yaml"
        settings = {"name": "shop", "source": {"connector": "api"}, "target": {"path": "a/tables"}, **more}
        file.write_text(yaml.safe_dump(settings))
        source = Api()
        pipeline = Pipeline.load(file).prepared(source, "config", Secrets())
        with simulated(api, MockClock("2024-05-01T12:00:00Z")):
            found = list(pipeline_findings(pipeline, source, clock=lambda: NOON, free=ample))
        return {finding.name: finding for finding in found}

    return findings


def answering(**response: object) -> MockApi:
    api = MockApi()
    api.get("/users").returns(**{"json": [{"id": 1}], "headers": {"Date": DATE}, **response})  # type: ignore[arg-type]
    return api


def test_a_pipeline_that_has_all_it_needs_leaves_nothing_behind(look: Look, tmp_path: Path) -> None:
    provider = {"type": "local", "config": {"path": "states"}}

    found = look(answering(), state={"state_provider": provider})

    assert {name: finding.status for name, finding in found.items()} == dict.fromkeys(
        ("network", "source", "clock", "streams", "target", "disk of the target", "state"), "ok"
    )
    assert found["network"].text == "https://api.test answered"
    assert found["clock"].text == "30 s apart from the clock of https://api.test"
    assert [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "lease"] == [
        tmp_path / "pipeline.yaml"
    ]
    assert not (tmp_path / "a").exists()


def test_credentials_that_are_refused_are_a_failure_of_the_source(look: Look) -> None:
    found = look(answering(status=401))

    assert (found["network"].status, found["source"].status) == ("ok", "failed")
    assert "credentials" in found["source"].fix


def test_options_that_do_not_fit_a_stream_are_a_failure_of_the_streams(look: Look) -> None:
    found = look(answering(), streams={"users": {"write_mode": "append_dedup"}})

    assert (found["source"].status, found["streams"].status) == ("ok", "failed")
    assert "primary_key" in found["streams"].text


def test_streams_are_planned_without_requests(look: Look) -> None:
    api = answering()

    found = look(api)

    assert found["streams"].text == "1 stream, whose options fit"
    assert len(api.requests) == 1


def test_an_api_that_does_not_answer_is_a_failure_of_the_network(look: Look) -> None:
    api = MockApi()
    api.get("/users").raises(Timeout("no response in time"))

    found = look(api)

    assert {name: found[name].status for name in ("network", "source", "clock")} == {
        "network": "failed",
        "source": "skipped",
        "clock": "skipped",
    }
    assert "HTTPS_PROXY" in found["network"].fix


def test_a_server_that_fails_for_long_is_not_taken_for_a_wrong_clock_or_config(look: Look) -> None:
    api = MockApi()
    users = api.get("/users")
    for second in range(26, 32):
        users = users.returns(status=500, headers={"Date": f"Wed, 01 May 2024 11:59:{second} GMT"})

    found = look(api)

    assert found["clock"].text == "29 s apart from the clock of https://api.test"
    assert found["source"].status == "failed"
    assert found["source"].fix.startswith("try again later")


def test_a_clock_that_goes_wrong_is_told_of(look: Look) -> None:
    found = look(answering(headers={"Date": "Wed, 01 May 2024 11:00:00 GMT"}))

    assert (found["clock"].status, found["clock"].text[:6]) == ("warning", "3600 s")


def test_places_that_cannot_be_written_to_are_failures(look: Look, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    provider = {"type": "local", "config": {"path": "file"}}

    found = look(answering(), target={"path": "file"}, state={"state_provider": provider})

    assert (found["target"].status, found["state"].status) == ("failed", "failed")
    assert "target.path" in found["target"].fix


def test_a_target_that_is_there_stays(look: Look, tmp_path: Path) -> None:
    (tmp_path / "tables").mkdir()

    found = look(answering(), target={"path": "tables"})

    assert found["target"].status == "ok"
    assert list((tmp_path / "tables").iterdir()) == []


@pytest.mark.parametrize(("free", "status"), [(10**12, "ok"), (10**9, "warning"), (10**8, "failed")])
def test_a_full_disk_is_told_of(free: int, status: str) -> None:
    found = {finding.name: finding for finding in machine_findings(java=lambda: "/java", free=lambda _: free)}

    assert found["disk"].status == status
    assert (found["Java"].status, found["Java"].text, found["Spark"].status) == ("ok", "/java", "ok")


def test_a_machine_without_java_is_told_how_to_get_one() -> None:
    def missing() -> Path:
        raise ConfigError("Spark needs Java 17 or newer; found none")

    found = {finding.name: finding for finding in machine_findings(java=missing, free=ample)}

    assert (found["Java"].status, "spark-cdk[java]" in found["Java"].fix) == ("failed", True)


def test_a_machine_without_pyspark_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)

    found = {finding.name: finding for finding in machine_findings(free=ample)}

    assert list(found) == ["versions", "Spark", "disk"]
    assert found["Spark"].status == "warning"
    assert "spark.start: never" in found["Spark"].text
