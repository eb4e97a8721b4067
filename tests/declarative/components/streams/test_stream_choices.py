"""Streams that are there, or read, depending on config and state."""

from typing import Any

import pytest

from cdk.base.errors import ManifestError
from cdk.declarative.manifest import Manifest
from cdk.declarative.source import ManifestSource
from tests.declarative.reading.test_state_delegating_stream import stream

CHECK = {"type": "CheckStream", "stream_names": ["items"]}


def names(config: dict[str, Any], *streams: dict[str, Any]) -> list[str]:
    made = ManifestSource(Manifest({"version": "6.0.0", "check": CHECK, "streams": list(streams)}))
    return [found.name for found in made.streams(config)]


def delegating(full: str, later: str, **parts: Any) -> dict[str, Any]:
    return {
        "type": "StateDelegatingStream",
        "name": "items",
        "full_refresh_stream": stream("/a", None, name=full),
        "incremental_stream": stream("/b", None, name=later),
        **parts,
    }


@pytest.mark.parametrize(("audit", "found"), [(True, ["items", "audit"]), (False, ["items"])])
def test_streams_are_there_when_the_condition_holds(audit: bool, found: list[str]) -> None:  # noqa: FBT001
    when = {
        "type": "ConditionalStreams",
        "condition": "{{ config.audit }}",
        "streams": [stream("/audit", None, name="audit")],
    }

    assert found == names({"audit": audit}, stream("/items", None), when)


def test_both_streams_have_the_name_of_the_whole() -> None:
    assert names({}, delegating("items", "items")) == ["items"]
    with pytest.raises(ManifestError, match="'items', 'other', expected one"):
        names({}, delegating("items", "other"))


def test_a_config_may_leave_the_retention_out() -> None:
    assert names({}, delegating("items", "items", api_retention_period="{{ config['retention'] }}")) == ["items"]


def test_a_retention_that_is_no_duration_is_told() -> None:
    with pytest.raises(ManifestError, match="api_retention_period: found 'a week'"):
        names({}, delegating("items", "items", api_retention_period="a week"))
