"""Documents that people give: what is in them, and what errors say of them."""

from pathlib import Path

import pytest

from cdk.base.documents import parse_json, read_document
from cdk.base.errors import ConfigError
from cdk.base.values import as_list


def test_json_and_yaml_give_the_same(tmp_path: Path) -> None:
    texts = {"a.json": '{"day": "2024-01-01"}', "a.yaml": "day: 2024-01-01", "a.yml": "{day: 2024-01-01}"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)

        assert read_document(tmp_path / name) == {"day": "2024-01-01"}


def test_a_text_that_is_no_json_is_placed_and_not_kept_with_the_error() -> None:
    with pytest.raises(ConfigError, match=r"option config: is not JSON: .* \(line 1, column 9\)") as refused:
        parse_json(b'{"key": hunter2}', "option config")

    assert refused.value.__cause__ is None
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("levels", [501, 900, 2_000, 100_000])
def test_a_text_that_is_nested_too_deeply_is_refused_on_all_versions_of_python(levels: int) -> None:
    with pytest.raises(ConfigError, match=r"option config: .*(deeper than 500 levels|depth (limit|exceeded))"):
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
