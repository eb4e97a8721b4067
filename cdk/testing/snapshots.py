"""Snapshots: a read's requests, records and states, saved in a file that later test runs are compared with."""

import difflib
import json
import os
from pathlib import Path

from cdk.base.values import JsonValue
from cdk.rest import Request
from cdk.testing.mock_api import MockApi
from cdk.testing.plugin import UPDATE
from cdk.testing.run import ReadResult


def assert_snapshot(path: Path, run: ReadResult, api: MockApi | None = None) -> None:
    """Compare records, states, statuses and the error of a read, and the requests to `api`, with those in a JSON file.

    The file contains no secrets of requests. When snapshots are updated, the file is written instead.
    Raises AssertionError, with the differences: when the read differs from the snapshot, or the file is missing.
    """
    text = json.dumps(_snapshot(run, api), indent=2, ensure_ascii=False, sort_keys=True) + "\n"
    if os.environ.get(UPDATE):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return
    if not path.exists():
        raise AssertionError(f"{path}: found no snapshot; write it with `pytest --update-snapshots`, and look at it")
    before = path.read_text(encoding="utf-8")
    if before != text:
        lines = difflib.unified_diff(before.splitlines(), text.splitlines(), "snapshot", "this read", lineterm="", n=2)
        raise AssertionError(
            f"{path}: the read differs from the snapshot\n" + "\n".join(lines) + "\n"
            "If that is right, rewrite the snapshot with `pytest --update-snapshots`."
        )


def _snapshot(run: ReadResult, api: MockApi | None) -> dict[str, JsonValue]:
    streams = {message["record"]["stream"] for message in run.messages if message["type"] == "RECORD"}
    return {
        "requests": [] if api is None else [_line(request) for request in api.requests],
        "records": {stream: run.records_of(stream) for stream in sorted(streams)},
        "states": [
            {message["state"]["stream"]["stream_descriptor"]["name"]: message["state"]["stream"]["stream_state"]}
            for message in run.messages
            if message["type"] == "STATE"
        ],
        "statuses": run.statuses,
        "error": None if run.error is None else str(run.error),
    }


def _line(request: Request) -> str:
    body = "" if request.body is None else f" {request.hide(request.body.decode(errors='replace'))}"
    return f"{request}{body}"
