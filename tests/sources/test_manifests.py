"""Manifests are loaded from paths of any kind, with or without their code."""

import json
from pathlib import Path

import pytest

from cdk.base.errors import CdkError
from cdk.sources.manifests import manifest_source

CODE = """
class Ones:
    def extract_records(self, response):
        return [{"id": 1}]
"""


@pytest.mark.parametrize("kind", [str, Path])
@pytest.mark.parametrize("components", [None, "other/code.py"])
def test_a_manifest_and_its_code_are_found_by_strings_and_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type, components: str | None
) -> None:
    extractor = {"type": "CustomRecordExtractor", "class_name": "source_x.components.Ones"}
    stream = {
        "type": "DeclarativeStream",
        "name": "ones",
        "schema_loader": {"type": "InlineSchemaLoader", "schema": {"type": "object"}},
        "retriever": {
            "type": "SimpleRetriever",
            "requester": {"type": "HttpRequester", "url": "https://api.test/ones"},
            "record_selector": {"type": "RecordSelector", "extractor": extractor},
        },
    }
    check = {"type": "CheckStream", "stream_names": ["ones"]}
    (tmp_path / "manifest.yaml").write_text(json.dumps({"version": "6.0.0", "check": check, "streams": [stream]}))
    code = tmp_path / (components or "components.py")
    code.parent.mkdir(exist_ok=True)
    code.write_text(CODE)
    monkeypatch.chdir(tmp_path)
    file = None if components is None else kind(components)

    source = manifest_source(kind("manifest.yaml"), trusted=True, components=file)

    assert [each.name for each in source.open({})] == ["ones"]
    with pytest.raises(CdkError, match="Ones"):
        manifest_source(kind("manifest.yaml")).open({})
