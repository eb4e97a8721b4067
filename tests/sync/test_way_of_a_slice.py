"""How many files of the kit run on the way of a slice from a pipeline file to its commit, as a trace counts them."""

import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import cdk
from tests.local_server import answering

SHOP = """
from cdk import Source
from cdk.rest import HttpStream


class Items(HttpStream):
    name = "items"
    primary_key = "id"
    url_base = "{url}"
    records_path = ("items",)

    def path(self, slice):
        return "items"

    def json_schema(self):
        return {{"type": "object", "properties": {{"id": {{"type": "integer"}}, "name": {{"type": "string"}}}}}}


class Shop(Source):
    stream_classes = [Items]
"""

TRACE = """
import sys, threading
from pathlib import Path
from cdk.sources.discovery import find_source
from cdk.sync.loop.runner import SyncRunner
from cdk.sync.settings.pipeline_file import Pipeline

files = set()


def note(frame, event, _):
    name = frame.f_code.co_filename
    if event == "call" and name.startswith(sys.argv[1]) and name not in files:
        while frame is not None and not frame.f_code.co_filename.startswith("<frozen importlib"):
            frame = frame.f_back
        if frame is None:  # else it runs while a module is imported
            files.add(name)


threading.setprofile(note)
sys.setprofile(note)
pipeline = Pipeline.load(Path("pipeline.yaml"))
result = SyncRunner(pipeline, find_source("shop.py")).run()
sys.setprofile(None)
assert result.ok and result.streams[0].written == 2, result
print(len(files))
"""


class Api(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b'{"items": [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]}'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_a_slice_runs_code_of_about_100_files(tmp_path: Path) -> None:
    with answering(ThreadingHTTPServer(("127.0.0.1", 0), Api)) as server:
        (tmp_path / "shop.py").write_text(SHOP.format(url=f"http://127.0.0.1:{server.server_port}/"))
        (tmp_path / "pipeline.yaml").write_text(
            "name: shop\nsource: {connector: ./shop.py}\ntarget: {path: lake}\nstreams: [items]\n"
        )
        command = [sys.executable, "-c", TRACE, str(Path(cdk.__file__).parent)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert 50 < int(done.stdout) <= 125
