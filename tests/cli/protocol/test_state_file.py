"""States in every form that somebody may have kept."""

import json
import logging
from pathlib import Path

import pytest

from cdk import StateError
from cdk.base.values import Json
from cdk.cli.protocol.state_file import load_state
from cdk.state.manager import ConnectorStateManager

ITEM = {"stream_descriptor": {"name": "users"}, "stream_state": {"page": 3}}
MESSAGE = {"type": "STREAM", "stream": ITEM}
OLDER = {"type": "STREAM", "stream": {**ITEM, "stream_state": {"page": 2}}}


def load(path: Path, text: str) -> Json:
    file = path / "state.json"
    file.write_text(text)
    return ConnectorStateManager(load_state(file, {"users", "orders"})).get_stream_state("users")


@pytest.mark.parametrize(
    "text",
    [
        json.dumps([MESSAGE]),
        json.dumps([OLDER, MESSAGE], indent=2),
        json.dumps([{"stream": ITEM}]),
        json.dumps(MESSAGE),
        json.dumps({"type": "STATE", "state": MESSAGE}),
        json.dumps([{"type": "STATE", "state": {"stream": ITEM}}]),
        json.dumps({"type": "GLOBAL", "global": {"stream_states": [ITEM], "shared_state": None}}),
        json.dumps({"type": "LEGACY", "data": {"users": {"page": 3}}}),
        json.dumps({"users": {"page": 3}}),
        json.dumps({"users": {"page": 3}, "gone": {"page": 1}}),
        "\n".join(
            map(
                json.dumps,
                [
                    {"type": "STATE", "state": OLDER},
                    {"type": "RECORD", "record": {"stream": "users", "data": {"type": "STATE"}, "emitted_at": 1}},
                    {"type": "STATE", "state": MESSAGE},
                    {"type": "TRACE", "trace": {}},
                ],
            )
        )
        + '\n{"type":"STA',
        json.dumps(OLDER) + "\n\n" + json.dumps(MESSAGE) + "\n",
    ],
    ids=[
        "list",
        "later-wins",
        "no-type",
        "one",
        "one-envelope",
        "list-of-envelopes",
        "global",
        "legacy-message",
        "legacy-map",
        "legacy-map-with-a-stream-that-is-gone",
        "output-of-a-killed-read",
        "lines",
    ],
)
def test_a_state_is_understood(tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        assert load(tmp_path, text) == {"page": 3}


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"type": "RECORD", "record": {}}'])
def test_an_empty_state_is_none(tmp_path: Path, text: str) -> None:
    assert load(tmp_path, text) == {}


def test_no_file_is_no_state() -> None:
    assert load_state(None, {"users"}) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '[{"type": "STREAM", "stream": {"stream_descriptor": {}, "stream_state": {}}}]',
            r"state.json: \[0\].stream.stream_descriptor.name: found nothing, expected a value",
        ),
        (
            '[{"stream": {"stream_descriptor": {"name": 5}}}]',
            r"\[0\].stream.stream_descriptor.name: found 5, expected a string",
        ),
        (
            '[{"type": "SOMETHING", "stream": {}}]',
            r"\[0\].type: found 'SOMETHING', expected 'GLOBAL' or 'LEGACY' or 'STREAM'",
        ),
        ('[{"users": {"page": 3}}]', r"state.json: \[0\]: found .*, expected a state message such as"),
        ('{"usres": {"page": 3}}', r"expected a state message .*map from stream name \(orders, users\) to state"),
        ('{"users": 3}', r"state.json: users: found 3, expected the state of this stream"),
        ("3", r"state.json: found 3, expected a list of state messages"),
        ('{"users": {\n  "page" 3}}', r"state.json:2:10: is not JSON: "),
        ('{"type":"STATE","state":{}}\n[]\n', r"state.json:1 state: found \{\}, expected a state message"),
        ('{"type":"LOG"}\nnonsense\n', r"state.json:2:1: is not JSON"),
    ],
)
def test_anything_else_says_where_it_is_and_what_was_expected(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(StateError, match=said):
        load(tmp_path, text)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=r"absent\.json: cannot be read: No such file"):
        load_state(tmp_path / "absent.json", {"users"})


def test_a_state_of_a_stream_the_source_lacks_is_warned_about(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    load(tmp_path, json.dumps([{"stream": {"stream_descriptor": {"name": "usres"}, "stream_state": {}}}]))

    assert "'usres', a stream that the source does not have; did you mean 'users'?" in caplog.text


@pytest.mark.parametrize(
    "text",
    [
        json.dumps([{"stream": {"stream_descriptor": {"name": "users"}, "stream_state": None}}]),
        json.dumps({"users": None, "orders": {}}),
        json.dumps(
            [
                {
                    "type": "GLOBAL",
                    "global": {"stream_states": [{"stream_descriptor": {"name": "users"}, "stream_state": None}]},
                }
            ]
        ),
    ],
)
def test_a_state_that_is_null_is_warned_about(tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture) -> None:
    assert load(tmp_path, text) == {}

    (line,) = caplog.messages
    assert line.endswith("the state of 'users' is null: the stream is read from its start")
