"""What editors make of the files that `spark-cdk new` writes: schemas and settings, in a real YAML language server."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from cdk.authoring.new_connector import new_connector
from cdk.base.values import Json
from tests.authoring.test_manifest_schema import FORMS
from tests.servers.language_server import Editor, editor, needs_language_server

pytestmark = needs_language_server
PROJECT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("editor") / "pets"
    new_connector("pets", "yaml", folder)
    return folder


@pytest.fixture(scope="module")
def opened(folder: Path) -> Iterator[Editor]:
    """An editor without settings: the first line of a file names the schema."""
    with editor(folder, {}) as opened:
        yield opened


@pytest.fixture(scope="module")
def manifest(folder: Path) -> str:
    return (folder / "manifest.yaml").read_text()


@pytest.fixture(scope="module")
def pipeline(folder: Path) -> str:
    return (folder / "pipeline.yaml").read_text()


def line(text: str, part: str) -> int:
    """The number of the one line that has a part."""
    (number,) = (number for number, row in enumerate(text.splitlines(), 1) if part in row)
    return number


def test_nothing_is_wrong_with_what_is_written(opened: Editor, manifest: str, pipeline: str) -> None:
    assert opened.problems("manifest.yaml", manifest) == []
    assert opened.problems("pipeline.yaml", pipeline) == []


@pytest.mark.parametrize("source", ["forms", "datasette"])
def test_references_parameters_and_old_forms_are_no_mistakes(opened: Editor, manifest: str, source: str) -> None:
    text = FORMS if source == "forms" else (PROJECT / "connectors/datasette/manifest.yaml").read_text()
    first = manifest.splitlines()[0]

    assert opened.problems("manifest.yaml", f"{first}\n{text}") == []


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        ("type: PageIncrement", "type: PageIncremen", 'Valid values: "PageIncrement"'),
        ("type: DefaultPaginator", "type: DefaultPaginate", '"DefaultPaginator"'),
        ("start_from_page: 1", "start_from_page: one", 'Expected "integer'),
        ("primary_key: id", "primary_key: [1]", 'Expected "string'),
        ("name: items", "name: 5", 'Expected "string"'),
        ("version: 6.0.0", "versions: 6.0.0", 'Missing property "version"'),
    ],
)
def test_a_mistake_in_a_manifest_is_underlined(
    opened: Editor, manifest: str, right: str, wrong: str, words: str
) -> None:
    text = manifest.replace(right, wrong)
    (problem,) = opened.problems("manifest.yaml", text)

    number, _, message = problem.partition(": ")
    # What is missing is missing where the object begins.
    begins = 1 + next(i for i, row in enumerate(text.splitlines()) if not row.startswith("#"))
    assert int(number) == (begins if "Missing" in words else line(text, wrong))
    assert words in message


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        (
            "write_mode: append_dedup",
            "write_mode: append_dedupe",
            'Valid values: "append", "overwrite", "append_dedup"',
        ),
        ("{write_mode", "{wrte_mode", "Property wrte_mode is not allowed"),
        ("target: {path: tables}", "target: tables", "Incorrect type"),
    ],
)
def test_a_mistake_in_a_pipeline_is_underlined(
    opened: Editor, pipeline: str, right: str, wrong: str, words: str
) -> None:
    text = pipeline.replace(right, wrong)

    (problem,) = opened.problems("pipeline.yaml", text)

    assert problem.startswith(f"{line(text, wrong)}: ")
    assert words in problem


def vscode(settings: Json) -> Json:
    """The section `yaml` of settings of VS Code, as its extension gives it to the server."""
    return {key.removeprefix("yaml."): value for key, value in settings.items() if key.startswith("yaml.")}


def zed(settings: Json) -> Json:
    return settings["lsp"]["yaml-language-server"]["settings"]["yaml"]


@pytest.mark.parametrize(("file", "section"), [(".vscode/settings.json", vscode), (".zed/settings.json", zed)])
def test_the_settings_of_editors_name_the_schemas(
    folder: Path, manifest: str, pipeline: str, file: str, section: Callable[[Json], Mapping[str, Json]]
) -> None:
    settings = {"yaml": section(json.loads((folder / file).read_text()))}

    def bare(text: str) -> str:
        return re.sub(r"^# yaml-language-server.*\n", "", text)

    with editor(folder, settings) as opened:
        right = [opened.problems("manifest.yaml", bare(manifest)), opened.problems("pipeline.yaml", bare(pipeline))]
        (in_manifest,) = opened.problems("manifest.yaml", bare(manifest).replace("name: items", "name: 5"))
        (in_pipeline,) = opened.problems("pipeline.of-the-night.yaml", bare(pipeline).replace("streams", "steams"))

    assert right == [[], []]
    assert in_manifest.endswith('Incorrect type. Expected "string".')
    assert in_pipeline.endswith("Property steams is not allowed.")


def test_what_may_stand_at_a_place_is_offered(opened: Editor, manifest: str, pipeline: str) -> None:
    paginator = f"{manifest.partition('      paginator:')[0]}      paginator:\n        "
    strategy = f"{paginator}type: DefaultPaginator\n        pagination_strategy:\n          type: "
    items = f"{pipeline.partition('{write_mode')[0]}\n    "

    types = opened.offered("manifest.yaml", f"{paginator}type: ")
    fields = opened.offered("manifest.yaml", f"{paginator}type: DefaultPaginator\n        ")

    assert {"DefaultPaginator", "NoPagination"} <= set(types)
    assert {"pagination_strategy", "page_token_option", "page_size_option"} <= set(fields)
    # What only old manifests have is no mistake, and not offered.
    assert {"CartesianProductStreamSlicer", "SingleSlice", "$options"}.isdisjoint([*types, *fields])
    offered = ["CursorPagination", "CustomPaginationStrategy", "OffsetIncrement", "PageIncrement"]
    assert sorted(opened.offered("manifest.yaml", strategy)) == offered
    assert {"write_mode", "primary_key"} <= set(opened.offered("pipeline.yaml", items))
    assert {"append", "append_dedup", "overwrite"} <= set(opened.offered("pipeline.yaml", f"{items}write_mode: "))


def test_a_field_is_explained(opened: Editor, manifest: str, pipeline: str) -> None:
    assert "Finds pages with a strategy" in opened.explained("manifest.yaml", manifest, "paginator")
    assert "append_dedup" in opened.explained("pipeline.yaml", pipeline, "write_mode")
