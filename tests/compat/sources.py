"""Manifests with one stream, beside a components.py of their own."""

from collections.abc import Mapping
from pathlib import Path

from cdk.base.values import Json
from cdk.declarative.manifest import Manifest
from cdk.declarative.model.context import Runtime
from cdk.declarative.source import ManifestSource
from cdk.sources.manifests import airbyte_code
from cdk.testing.mock_api import MockApi

URL = "https://api.example.com"


def merged(base: Json, change: Json) -> Json:
    if isinstance(base, dict) and isinstance(change, dict):
        return {**base, **{name: merged(base.get(name), value) for name, value in change.items()}}
    return change


def manifest(stream: Mapping[str, Json] = {}, **retriever: Json) -> Json:
    simple = {
        "type": "SimpleRetriever",
        "requester": {"type": "HttpRequester", "url_base": URL, "path": "/items"},
        "record_selector": {"type": "RecordSelector", "extractor": {"type": "DpathExtractor", "field_path": ["data"]}},
    }
    return {
        "type": "DeclarativeSource",
        "version": "6.0.0",
        "check": {"type": "CheckStream", "stream_names": ["items"]},
        "streams": [
            {
                "type": "DeclarativeStream",
                "name": "items",
                "$parameters": {"name": "items"},
                "retriever": merged(simple, retriever),
                "schema_loader": {"type": "InlineSchemaLoader", "schema": {"type": "object", "properties": {}}},
                **stream,
            }
        ],
    }


def source(
    folder: Path, code: str, written: Json, api: MockApi, *, trusted: bool = True, waits: list[float] | None = None
) -> ManifestSource:
    """The source of a manifest whose folder has this components.py. waits: gets the waits before retries."""
    (folder / "components.py").write_text(code)
    waits = [] if waits is None else waits
    return ManifestSource(
        Manifest(written),
        Runtime(transport=api, folder=folder, custom=airbyte_code(allowed=trusted), sleep=waits.append),
    )
