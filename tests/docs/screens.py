"""The pictures of `spark-cdk ui` in the docs: `python -m tests.docs.screens` takes them, in Chromium."""

import json
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from textwrap import dedent

import pyarrow as pa
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from cdk.authoring.drafts.curl import draft_of_curl
from cdk.authoring.new_connector import new_connector
from cdk.lake.delta.stream_table import StreamTable
from cdk.lake.delta.table_state import TableState
from tests.cli.ui.browser import chromium, problems, served, visit
from tests.docs.pictures import FOLDER

_STATIONS = 300
_BEGAN = datetime(2026, 3, 2, 6, 0, tzinfo=UTC)
_COMMITS = [
    *(("7c1f09aa", seconds, False) for seconds in (0, 9, 24, 29, 39)),
    *(("b3e8820d", seconds, seconds == 629) for seconds in (600, 609, 624, 629)),
    *(("e90d4461", seconds, seconds == 4208) for seconds in (4200, 4208)),
]
"""A run that is killed after its fifth commit, the one that resumes it, and a later one: sync, seconds, complete."""
_PIPELINE = """
    name: weather
    source: {connector: stations.py, config: {key: "${WEATHER_KEY}"}}
    target: {path: tables}
"""
_CONNECTOR = """
    from cdk import CountCursor, Partition, Source
    from cdk.rest import Bearer, HttpStream
    from cdk.testing import MockApi

    api = MockApi()
    for station in range(300):
        readings = [{"id": n, "day": 100 + n + 37 * station % 200, "temperature": 11.5 + n} for n in range(2)]
        api.get(f"/stations/{station}/readings").returns(json={"readings": readings})

    class Readings(HttpStream):
        url_base = "https://weather.example.com"
        transport = api
        cursor = CountCursor("day")
        records_path = "readings"
        schema = {
            "type": "object",
            "properties": {"id": {"type": "integer"}, "day": {"type": "integer"}, "temperature": {"type": "number"}},
        }

        def partitions(self):
            return [Partition({"station": number}) for number in range(300)]

        def path(self, slice):
            return f"/stations/{slice.partition['station']}/readings"

        def authenticator(self):
            return Bearer(self.config["key"])

    class Stations(Source):
        stream_classes = [Readings]
        config_schema = {"properties": {"key": {"type": "string", "airbyte_secret": True}}}
"""


def main() -> None:
    """Take all pictures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _put_weather(folder)
        with served(folder) as (address, _), chromium("--hide-scrollbars") as browser:
            visit(browser, address)
            here = address.partition("/?")[0]
            stream = f"{here}/stream?file=pipeline.yaml&stream=readings"
            _take(browser, "ui-stream", stream, 530)
            _take(browser, "ui-timeline", f"{stream}#timeline", 360)
            read = f"{here}/build?connector=stations.py&config=config.json&stream=readings"
            _take(browser, "ui-read", read, 620, opened="summary")
            _take(browser, "ui-build", f"{here}/build?connector=water/manifest.yaml&config=config.json", 620)
            assert problems(browser) == []


def _put_weather(folder: Path) -> None:
    (folder / "pipeline.yaml").write_text(dedent(_PIPELINE))
    (folder / "stations.py").write_text(dedent(_CONNECTOR))
    draft = draft_of_curl("curl -H 'key: of-water' 'https://api.water.test/v1/levels?limit=100'")
    new_connector("water", "yaml", folder / "water", draft)
    (folder / "config.json").write_text('{"key": "wk-4417-not-a-real-one"}')
    (folder / ".env").write_text("WEATHER_KEY=wk-4417-not-a-real-one")
    table = StreamTable(folder / "tables" / "readings", "weather", "readings", pa.schema([("id", pa.int64())]))
    total = 0
    for number, (sync, seconds, complete) in enumerate(_COMMITS, 1):
        read = _STATIONS * min(number, 9) // 9
        states = [
            {"partition": {"station": n}, "cursor": {"day": 101 + 37 * n % 200 + (number - 9 if number > 9 else 0)}}
            for n in range(read)
        ]
        rows = 66 if number <= 9 else 150
        total += rows
        state = {"states": states}
        table.commit(TableState("incremental", "append", sync * 4, complete=complete, state=state, records=total))
        path = folder / "tables" / "readings" / "_delta_log" / f"{table.version:020}.json"
        path.write_text(_dated(path.read_text(), _BEGAN + timedelta(seconds=seconds), rows))


def _dated(log: str, at: datetime, rows: int) -> str:
    """A commit as if it was of another time, and had a file of rows."""
    lines = [json.loads(line) for line in log.splitlines()]
    time = int(at.timestamp() * 1000)
    for line in lines:
        if "commitInfo" in line:
            line["commitInfo"]["timestamp"] = time
    file = {"path": f"{time}.parquet", "partitionValues": {}, "size": 1, "modificationTime": time, "dataChange": True}
    return "\n".join(map(json.dumps, [*lines, {"add": {**file, "stats": json.dumps({"numRecords": rows})}}]))


def _take(browser: Chrome, name: str, address: str, height: int, *, opened: str = "") -> None:
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 1200, "height": height, "deviceScaleFactor": 1, "mobile": False}
    )
    visit(browser, address)
    if opened:
        browser.find_element(By.CSS_SELECTOR, opened).click()
    browser.save_screenshot(str(FOLDER / f"{name}.png"))


if __name__ == "__main__":
    main()
