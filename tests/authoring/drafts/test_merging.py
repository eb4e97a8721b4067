"""A second draft changes what nobody has changed by hand, and says what it left alone."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdk.authoring.drafts.merging import LOCK, lock, merge, redrafted
from cdk.authoring.drafts.openapi.description import Description
from cdk.authoring.drafts.openapi.from_description import draft_of
from cdk.authoring.new_connector import new_connector
from cdk.base.errors import ConfigError
from cdk.base.values import Json
from cdk.base.yaml_file import YamlFile

MAPPINGS = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 2))
EDIT = "        record_selector: {type: RecordSelector, extractor: {type: DpathExtractor, field_path: []}}\n"


@settings(max_examples=50)
@given(MAPPINGS, MAPPINGS, MAPPINGS)
def test_a_merge_takes_each_change_of_either_side_and_of_both_the_hand_made(
    base: dict[str, int], mine: dict[str, int], new: dict[str, int]
) -> None:
    merged, _ = merge(base, mine, new)

    assert merge(base, base, new)[0] == new
    assert merge(base, mine, base)[0] == mine
    assert all(merged.get(key) == (mine if mine.get(key) != base.get(key) else new).get(key) for key in "abcd")


def draft(folder: Path, *names: str, tenant: bool = False) -> list[str]:
    """Draft an API with these collections into a folder; what is said of it."""
    paths: Json = {}
    for name in names:
        records: Json = {"type": "array", "items": {"properties": {"id": {"type": "string"}}}}
        parameters = (
            [{"name": "tenant", "in": "query", "required": True, "schema": {"type": "string"}}] if tenant else []
        )
        response = {"content": {"application/json": {"schema": records}}}
        paths[f"/{name}"] = {"get": {"parameters": parameters, "responses": {"200": response}}}
    document: Json = {"openapi": "3.0.0", "servers": [{"url": "https://api.example.com"}], "paths": paths}
    return list(new_connector("shop-api", "yaml", folder, draft_of(Description(document))).notes)


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def streams(folder: Path) -> list[str]:
    manifest: Json = YamlFile.load(folder / "manifest.yaml").value
    assert [f"#/definitions/streams/{name}" for name in manifest["definitions"]["streams"]] == manifest["streams"]
    return list(manifest["definitions"]["streams"])


def test_streams_that_were_changed_by_hand_stay_and_new_ones_are_added(tmp_path: Path) -> None:
    draft(tmp_path, "orders", "users", "visits")
    manifest = tmp_path / "manifest.yaml"
    edit(manifest, "    orders:\n", "    # Ours.\n    orders:\n")
    edit(manifest, EDIT, EDIT.replace("[]", "[rows]"))
    before = manifest.read_text()

    notes = draft(tmp_path, "orders", "users", "notes", tenant=True)

    text = manifest.read_text()
    begin = before.index("    # Ours.")
    assert before[begin : before.index("    users:")] in text
    assert streams(tmp_path) == ["orders", "users", "notes"]
    assert text.count("config['tenant']") == 2
    assert notes == [
        "new: notes, spec.connection_specification.properties.tenant",
        "changed by hand, left as it is: orders",
        "no longer described, removed: visits",
    ]


def test_a_draft_of_the_same_changes_nothing(tmp_path: Path) -> None:
    draft(tmp_path, "orders", "users", tenant=True)
    edit(tmp_path / "manifest.yaml", EDIT, EDIT.replace("[]", "[rows]"))
    edit(tmp_path / "tests" / "responses.json", '"1"', '"7"')
    (tmp_path / "README.md").write_text("ours")
    (tmp_path / ".gitignore").unlink()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    notes = draft(tmp_path, "orders", "users", tenant=True)

    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert notes == ["changed by hand, left as it is: orders"]


EMPTY = "    required: []\n    properties: {}\n"


@pytest.mark.parametrize(
    "mine",
    [
        EMPTY,
        "    required: [own]  # ours\n    properties: {own: {type: string}}\n",
        "    required:\n      - own\n    properties:\n      own: {type: string}\n",
    ],
)
def test_a_config_in_one_line_is_merged_by_its_properties(tmp_path: Path, mine: str) -> None:
    draft(tmp_path, "orders")
    edit(tmp_path / "manifest.yaml", EMPTY, mine)

    notes = draft(tmp_path, "orders", tenant=True)
    manifest: Json = YamlFile.load(tmp_path / "manifest.yaml").value
    spec = manifest["spec"]["connection_specification"]
    own = ["own"] if "own" in mine else []
    assert (spec["required"], list(spec["properties"])) == ([*own, "tenant"], [*own, "tenant"])
    assert "new: spec.connection_specification.properties.tenant" in notes

    draft(tmp_path, "orders", "users")
    manifest = YamlFile.load(tmp_path / "manifest.yaml").value
    spec = manifest["spec"]["connection_specification"]
    assert (spec["required"], list(spec["properties"])) == (own, own)


def test_what_was_removed_by_hand_stays_away(tmp_path: Path) -> None:
    draft(tmp_path, "orders", "users")
    manifest = tmp_path / "manifest.yaml"
    text = manifest.read_text()
    without = text[: text.index("    users:")] + text[text.index("\nstreams:") :]
    manifest.write_text(without.replace('  - "#/definitions/streams/users"\n', ""))
    edit(tmp_path / "README.md", "offline", "without the network")

    notes = draft(tmp_path, "orders", "users", "visits")

    assert streams(tmp_path) == ["orders", "visits"]
    assert sorted(notes) == [
        "changed by hand, left as it is: README.md",
        "new: visits",
        "removed by hand, not restored: users",
    ]


def test_responses_and_configs_of_people_are_kept_beside_new_ones(tmp_path: Path) -> None:
    draft(tmp_path, "orders")
    edit(tmp_path / "tests" / "responses.json", '"1"', '"seven"')

    draft(tmp_path, "orders", "users", tenant=True)

    responses = json.loads((tmp_path / "tests" / "responses.json").read_text())
    assert [(each["path"], each["json"]) for each in responses] == [
        ("/orders", [{"id": "seven"}]),
        ("/users", [{"id": "1"}]),
    ]
    assert json.loads((tmp_path / "config.example.json").read_text()) == {"tenant": "the tenant"}


@pytest.mark.parametrize("name", ["manifest.yaml", "tests/responses.json", str(LOCK)])
def test_a_file_that_cannot_be_read_is_named_and_nothing_written(tmp_path: Path, name: str) -> None:
    draft(tmp_path, "orders")
    (tmp_path / name).write_text("[{")

    with pytest.raises(ConfigError, match=f"{name}: "):
        draft(tmp_path, "orders", "users")

    assert "users" not in (tmp_path / "manifest.yaml").read_text()


def test_a_lock_of_another_format_is_refused(tmp_path: Path) -> None:
    draft(tmp_path, "orders")
    edit(tmp_path / LOCK, "spark-cdk-draft/1", "spark-cdk-draft/0")

    with pytest.raises(ConfigError, match="found the format 'spark-cdk-draft/0', expected 'spark-cdk-draft/1'"):
        draft(tmp_path, "orders", "users")


def test_a_draft_is_added_to_no_broken_one(tmp_path: Path) -> None:
    (tmp_path / LOCK).write_text(lock({Path("manifest.yaml"): "[{"}))

    with pytest.raises(ConfigError, match=r"manifest.yaml: cannot be merged"):
        redrafted(tmp_path, {Path("manifest.yaml"): "a: 1"}, adds=True)
