"""Files of values: one document, or one value a line, of which the last may be cut."""

from pathlib import Path

import pytest

from cdk.base.errors import ConfigError
from cdk.cli.input_files import read_documents

HALF = r'{"text":"\ud83d"}'
"""Half a character, as JSON may have it."""


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('{"n":1}\n{"n":2}\n', [{"n": 1}, {"n": 2}]),
        ('\n{"n":1}\n\n{"n":2}', [{"n": 1}, {"n": 2}]),
        ('{"n":1}\n{"n":', [{"n": 1}]),
        (f'{{"n":1}}\n{HALF}', [{"n": 1}, {"text": "\ud83d"}]),
        (f'{HALF}\n{{"n":{2**70}}}', [{"text": "\ud83d"}, {"n": 2**70}]),
        ('{"n":\n1}', [{"n": 1}]),
    ],
    ids=["lines", "blank lines", "a cut line", "half a character last", "half a character first", "one document"],
)
def test_every_value_of_a_file_is_read(tmp_path: Path, text: str, values: list[object]) -> None:
    file = tmp_path / "values.jsonl"
    file.write_text(text)

    assert [value for _, value in read_documents(file)] == values


def test_a_line_that_is_no_json_is_named(tmp_path: Path) -> None:
    file = tmp_path / "values.jsonl"
    file.write_text('{"n":1}\n{"n":}\n{"n":3}\n')

    with pytest.raises(ConfigError, match="is not JSON: ") as caught:
        list(read_documents(file))
    assert caught.value.path == f"{file}:2:6"
