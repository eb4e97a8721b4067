"""Documents that people give: what is in them, and what errors say of them."""

from pathlib import Path

import pytest

from cdk.base.documents import locating, parse_json, read_document
from cdk.base.errors import ConfigError
from cdk.base.values import Location, as_list


def test_json_and_yaml_give_the_same(tmp_path: Path) -> None:
    texts = {"a.json": '{"day": "2024-01-01"}', "a.yaml": "day: 2024-01-01", "a.yml": "{day: 2024-01-01}"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)

        assert read_document(tmp_path / name) == {"day": "2024-01-01"}


def test_a_text_that_is_no_json_is_placed_and_not_kept_with_the_error() -> None:
    with pytest.raises(ConfigError, match=r"option config:1:9: is not JSON: ") as refused:
        parse_json(b'{"key": hunter2}', "option config")

    assert refused.value.__cause__ is None
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("levels", [501, 900, 2_000, 100_000])
def test_a_text_that_is_nested_too_deeply_is_refused_on_all_versions_of_python(levels: int) -> None:
    with pytest.raises(ConfigError, match=r"option config.*: .*(deeper than 500 levels|depth (limit|exceeded))"):
        parse_json(b'{"a": ' + b"[" * levels + b"]" * levels + b"}", "option config")


def test_a_wide_document_may_have_any_number_of_lists() -> None:
    deep = b"[" * 499 + b"]" * 499

    value = parse_json(b"[" + b"[]," * 10_000 + deep + b"]", "option config")

    assert len(as_list(value)) == 10_001


def test_a_missing_file_is_made_of_the_example_beside_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_document(tmp_path / "config.json")
    (tmp_path / "config.example.json").write_text("{}")

    with pytest.raises(ConfigError, match=r"copy .*config.example.json to this path, and fill it in"):
        read_document(tmp_path / "config.json")


JSON = """{
\t"a": [
\t\t{"b": 1}
\t]
}"""


@pytest.mark.parametrize(
    ("location", "located"),
    [
        (Location(keys=("a", 0, "b")), "FILE:3 a[0].b"),
        (Location(keys=("a", 0, "c")), "FILE:3 a[0].c"),
        (Location(keys=("x",)), "FILE:1 x"),
        (Location("FILE", ("a",)), "FILE:2 a"),
        (Location("other.json", ("a",)), "other.json: a"),
        (Location("FILE", ("a",), 9), "FILE:9 a"),
    ],
)
def test_an_error_about_a_part_of_a_file_names_its_line(tmp_path: Path, location: Location, located: str) -> None:
    (file := tmp_path / "a.json").write_text(JSON)
    path = Location(location.file.replace("FILE", str(file)), location.keys, location.line)

    with pytest.raises(ConfigError) as raised, locating(file):
        raise ConfigError.together([ConfigError("is unknown", path=path), ConfigError("is odd")])

    assert str(raised.value) == f"{located.replace('FILE', str(file))}: is unknown\nis odd"


def test_an_error_without_a_file_or_with_other_words_is_left_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^a: is unknown$"), locating(None):
        raise ConfigError("is unknown", path=Location(keys=("a",)))
    with pytest.raises(ConfigError, match=r"^state of a: is unknown$"), locating(tmp_path / "a.yaml"):
        raise ConfigError("is unknown", path="state of a")


@pytest.mark.parametrize("text", [None, "a: ["])
def test_an_error_is_told_also_where_its_file_can_be_read_no_more(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "a.yaml"
    if text is not None:
        file.write_text(text)

    with pytest.raises(ConfigError, match=rf"^{file}: a: is unknown$"), locating(file):
        raise ConfigError("is unknown", path=Location(keys=("a",)))
