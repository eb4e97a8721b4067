"""Worlds of sources whose API lists the streams: whatever it leaves out, no table loses rows or is to be removed."""

import logging
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cdk import ConfigError, Json, Record
from cdk.base.logs import log_records
from cdk.base.task_map import run_inline
from cdk.declarative.manifest import Manifest
from cdk.declarative.model.context import Runtime
from cdk.declarative.source import ManifestSource
from cdk.sync.loop.runner import SyncRunner
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, TargetOptions
from cdk.sync.tasks.workers import Workers
from cdk.testing import MockApi
from tests.worlds.table import rows

NAMES = ("a", "b", "7", 8, "1e5")
TURNS = st.lists(st.lists(st.sampled_from(NAMES), unique=True), min_size=2, max_size=4)


def stream(name: str, path: str) -> dict[str, Json]:
    return {
        "type": "DeclarativeStream",
        "name": name,
        "retriever": {
            "type": "SimpleRetriever",
            "requester": {"type": "HttpRequester", "url_base": "https://api.test", "path": path},
            "record_selector": {"extractor": {"type": "DpathExtractor", "field_path": ["data"]}},
        },
    }


def source(listed: Sequence[Json], *, has_static: bool) -> ManifestSource:
    api = MockApi()
    api.get("/tables").returns(json={"data": [{"name": name} for name in listed]})
    for name in [*listed, "static"]:
        api.get(f"/of/{name}").returns(json={"data": [{"id": f"{name}"}]})
    template = {
        "type": "DynamicDeclarativeStream",
        "stream_template": stream("", ""),
        "components_resolver": {
            "type": "HttpComponentsResolver",
            "retriever": stream("", "tables")["retriever"],
            "components_mapping": [
                {"type": "ComponentMappingDefinition", "field_path": path, "value": value}
                for path, value in (
                    (["name"], "{{ components_values.name }}"),
                    (["retriever", "requester", "path"], "of/{{ components_values.name }}"),
                )
            ],
        },
    }
    manifest: dict[str, Json] = {
        "version": "6.0.0",
        "check": {"type": "CheckDynamicStream", "stream_count": 1},
        "streams": [stream("static", "of/static")] if has_static else [],
        "dynamic_streams": [template],
    }
    return ManifestSource(Manifest(manifest), Runtime(transport=api))


def tables(folder: Path) -> dict[str, list[Record]]:
    return {path.name: [{"id": row["id"]} for row in rows(path)] for path in folder.iterdir() if path.is_dir()}


@settings(max_examples=20)
@given(turns=TURNS, has_static=st.booleans())
@example(turns=[["a", "b"], []], has_static=False)
@example(turns=[["a", "b"], []], has_static=True)
def test_a_list_that_is_empty_is_an_error_and_no_table_is_to_be_removed(
    turns: Sequence[Sequence[Json]],
    has_static: bool,  # noqa: FBT001
) -> None:
    known = {"static"} if has_static else set()
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        pipeline = Pipeline(
            name="listed", source=SourceOptions(connector="listed"), target=TargetOptions(path=temporary)
        )
        for listed in turns:
            runner = SyncRunner(pipeline, source(listed, has_static=has_static), workers=Workers(run_inline, 1))
            logged: list[logging.LogRecord] = []
            with log_records(logged.append, level=logging.WARNING):
                if listed or has_static:
                    assert runner.run().ok
                else:
                    with pytest.raises(ConfigError, match="the source has no streams for this config"):
                        runner.run()
            known |= {f"{name}" for name in listed}
            texts = [record.getMessage() for record in logged]

            assert {name: found for name, found in tables(folder).items() if name in known} == {
                name: [{"id": name}] for name in known
            }
            assert not any("remove /" in text or f"remove {folder}" in text for text in texts)
            assert any("lists no streams" in text for text in texts) == (not listed)
            left_out = known - {f"{name}" for name in listed} - {"static"} if listed or has_static else set()
            assert {text.partition(":")[0] for text in texts if "does not list this stream" in text} == left_out
