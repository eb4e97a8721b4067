from pathlib import Path

import pytest

from cdk.base.errors import ManifestError
from cdk.base.values import Json, Stored
from cdk.base.yaml_file import YamlFile
from cdk.declarative.syntax.references import References, has_at_most


def resolved(manifest: dict[str, Json], part: str = "streams") -> Json:
    return References(manifest).resolve(manifest[part], (part,))


def test_an_object_with_a_reference_is_what_it_refers_to_and_its_own_keys_win() -> None:
    manifest = {"definitions": {"base": {"a": 1, "b": {"c": 2}}}, "streams": {"$ref": "#/definitions/base", "a": 3}}

    assert resolved(manifest) == {"a": 3, "b": {"c": 2}}


def test_a_text_that_is_a_reference_is_replaced_wherever_it_stands() -> None:
    manifest = {"definitions": {"size": 100}, "streams": [{"a": ["#/definitions/size", "# / no"]}, "#/definitions"]}

    assert resolved(manifest) == [{"a": [100, "# / no"]}, {"size": 100}]


def test_references_lead_through_references_and_lists() -> None:
    manifest = {
        "definitions": {
            "all": [{"$ref": "#/definitions/first"}, {"name": "second"}],
            "first": {"$ref": "#/definitions/bases/one", "name": "first"},
            "bases": {"one": {"name": "", "path": "/x"}},
            "alias": "#/definitions/bases",
        },
        "streams": ["#/definitions/all/0", "#/definitions/all/1/name", {"$ref": "#/definitions/alias/one"}],
    }

    assert resolved(manifest) == [{"name": "first", "path": "/x"}, "second", {"name": "", "path": "/x"}]


def test_a_key_with_slashes_is_found() -> None:
    manifest = {
        "definitions": {"a/b": {"c": 1}, "d": {"x/y": 2}},
        "streams": ["#/definitions/a/b", "#/definitions/d/x/y"],
    }

    assert resolved(manifest) == [{"c": 1}, 2]


def test_overrides_of_the_config_are_data() -> None:
    manifest = {"check": {"config_overrides": {"channel": "#/general"}}}

    assert resolved(manifest, "check") == {"config_overrides": {"channel": "#/general"}}


def test_a_part_that_is_used_often_is_resolved_once_and_shared() -> None:
    part = {"a": {"b": "#/definitions/x"}}
    manifest = {"definitions": {"x": 1, "part": part}, "streams": [part, part, "#/definitions/part"]}

    first, second, third = resolved(manifest)

    assert first == {"a": {"b": 1}}
    assert first is second is third


@pytest.mark.parametrize(
    ("link", "told"),
    [
        ("#/definitions/usrs", "there is no 'usrs'; did you mean 'users'?"),
        ("#/nothing/users", "there is no 'nothing'"),
        ("#/definitions/users/5", "there is no '5'"),
    ],
)
def test_a_reference_that_leads_nowhere_is_told_with_its_place(link: str, told: str) -> None:
    manifest = {"definitions": {"users": [1]}, "streams": [{"retriever": {"$ref": link}}]}

    with pytest.raises(ManifestError) as refused:
        resolved(manifest)

    assert refused.value.path == "streams[0].retriever.$ref"
    assert refused.value.message.startswith(f"the reference {link!r} cannot be resolved: {told}")


def test_a_circle_is_told_with_all_it_goes_through() -> None:
    manifest = {
        "definitions": {"a": {"x": "#/definitions/b"}, "b": {"$ref": "#/definitions/a"}},
        "streams": "#/definitions/a",
    }

    with pytest.raises(ManifestError) as refused:
        resolved(manifest)

    circle = "#/definitions/a -> #/definitions/b -> #/definitions/a"
    assert f"the references are circular: {circle}" == refused.value.message


def test_a_reference_into_itself_is_a_circle() -> None:
    manifest = {"definitions": {"a": {"$ref": "#/definitions/a/b"}}, "streams": "#/definitions/a"}

    with pytest.raises(ManifestError, match="are circular"):
        resolved(manifest)


def test_keys_beside_a_reference_to_a_list_are_refused() -> None:
    manifest = {"definitions": {"a": [1]}, "streams": {"$ref": "#/definitions/a", "name": "x"}}

    with pytest.raises(
        ManifestError, match="'#/definitions/a' leads to a list, so no other fields are allowed next to the"
    ):
        resolved(manifest)


def test_where_follows_references_to_what_is_written(tmp_path: Path) -> None:
    file = tmp_path / "manifest.yaml"
    file.write_text(
        "definitions:\n  base:\n    a: 1\n    b:\n      c: 2\nstreams:\n  - $ref: '#/definitions/base'\n    a: 3\n"
    )
    manifest: Stored = YamlFile.load(file).value
    references = References(manifest)

    assert list(references.where(("streams", 0, "a"))) == ["streams", 0, "a"]
    assert list(references.where(("streams", 0, "b", "c"))) == ["definitions", "base", "b", "c"]
    # What is not written is nearest to what is around it.
    assert list(references.where(("streams", 0, "b", "z", 1))) == ["definitions", "base", "b"]


def test_sizes_count_what_is_shared_as_often_as_it_is_used() -> None:
    value: Json = ["x"] * 10
    for _ in range(30):
        value = [value] * 10

    assert not has_at_most(value, 1_000_000)
    assert has_at_most(["x", {"y": 1}], 4)
    assert not has_at_most(["x", {"y": 1}], 3)
