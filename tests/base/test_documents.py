"""Documents that people give: what is in them, and what errors say of them."""

from pathlib import Path

import pytest

from cdk.base.documents import parse_json, read_document
from cdk.base.errors import ConfigError


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


def test_a_missing_file_is_made_of_the_example_beside_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_document(tmp_path / "config.json")
    (tmp_path / "config.example.json").write_text("{}")

    with pytest.raises(ConfigError, match=r"copy .*config.example.json to this path, and fill it in"):
        read_document(tmp_path / "config.json")
