from datetime import timedelta
from pathlib import Path

import pytest

from cdk import ConfigError, StateError
from cdk.spark.datasource.options import DataSourceOptions
from tests.docs.page import DOCS

LEAST = {"connector": "shop", "stream": "orders"}


def test_what_is_not_said_has_its_usual_value(tmp_path: Path) -> None:
    given = DataSourceOptions.of(LEAST, tmp_path)

    assert (given.concurrency, given.lag, given.slices_per_batch) == (None, timedelta(minutes=1), None)
    assert (given.state, given.partition_columns, given.allow_custom_code) == (None, (), False)
    assert given.read_config()[0] == {}


def test_options_are_read_in_any_case_and_paths_from_the_folder(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("key: k\n")
    given = DataSourceOptions.of(
        {
            "Manifest": "shop.yaml",
            "STREAM": "orders",
            "config_file": "config.yaml",
            "allow_custom_code": "True",
            "push_down": "TRUE",
            "partition_columns": "a, b",
            "lag": "90s",
            "slices_per_batch": "7",
            "state": '{"page": 2}',
        },
        tmp_path,
    )

    assert given.manifest == tmp_path / "shop.yaml"
    assert given.read_config() == ({"key": "k"}, str(tmp_path / "config.yaml"))
    assert given.allow_custom_code
    assert given.push_down
    assert (given.partition_columns, given.lag, given.slices_per_batch) == (("a", "b"), timedelta(seconds=90), 7)
    assert given.state == {"page": 2}
    assert DataSourceOptions.of({"connector": "own.py", "stream": "x"}, tmp_path).connector == str(tmp_path / "own.py")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({**LEAST, "conection": "x"}, "option conection: unknown key; did you mean 'connector'?"),
        ({"stream": "orders"}, "both or neither of the options connector and manifest"),
        ({**LEAST, "manifest": "x.yaml"}, "both or neither of the options connector and manifest"),
        ({"connector": "shop"}, "option stream: is missing"),
        ({**LEAST, "config": "{}", "config_file": "x"}, "the options config and config_file, expected at most one"),
        ({**LEAST, "config": "[]"}, "option config: found a list, expected an object"),
        ({**LEAST, "config_file": "none.json"}, "none.json: cannot be read: No such file or directory"),
        ({**LEAST, "config": "{}", "secret_config": "{}"}, "the options config and secret_config, expected at most"),
        ({**LEAST, "secret_config": "[]"}, "option secret_config: found a list, expected an object"),
        ({**LEAST, "push_down": "maybe"}, "option push_down: found 'maybe', expected true or false"),
        ({**LEAST, "partition_columns": "a"}, "option partition_columns: has an effect only with push_down"),
        ({**LEAST, "allow_custom_code": "2"}, "option allow_custom_code: found '2', expected true or false"),
        ({**LEAST, "concurrency": "0"}, "option concurrency: found '0', expected 1 or more"),
        ({**LEAST, "slices_per_batch": "many"}, "option slices_per_batch: found 'many', expected an integer"),
        ({**LEAST, "lag": "5"}, "option lag: found '5', expected a duration such as 500ms"),
    ],
)
def test_what_is_wrong_is_said(options: dict[str, str], words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        DataSourceOptions.of(options, tmp_path).read_config()

    assert words in str(refused.value)


def test_a_config_that_is_no_json_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"key": hunter2}')
    for option, value in (("config", '{"key": hunter2}'), ("config_file", "config.json")):
        with pytest.raises(ConfigError, match=r":1:9: is not JSON: ") as refused:
            DataSourceOptions.of({**LEAST, option: value}, tmp_path).read_config()

        assert "hunter2" not in str(refused.value)
        assert refused.value.__cause__ is None
    assert "hunter2" not in repr(DataSourceOptions.of({**LEAST, "config": '{"key": "hunter2"}'}, tmp_path))


@pytest.mark.parametrize(
    "message",
    [
        '{"stream_descriptor": {"name": "orders"}, "stream_state": {}}',
        '{"type": "STATE", "state": {"type": "STREAM", "stream": {"stream_descriptor": {}, "stream_state": {}}}}',
    ],
)
def test_a_state_message_is_told_from_the_state_in_it(message: str, tmp_path: Path) -> None:
    with pytest.raises(StateError, match="expected what a state message holds in `stream_state`"):
        DataSourceOptions.of({**LEAST, "state": message}, tmp_path)


def test_every_option_is_in_the_page() -> None:
    page = (DOCS / "how-to" / "run-from-a-notebook.md").read_text()

    assert [option for option in DataSourceOptions.model_fields if f"| `{option}` |" not in page] == []
