"""The pages about what sources say of themselves do what they say."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.docs.page import DOCS, play


class Files(SimpleHTTPRequestHandler):
    """A folder, as a web server gives it that knows ETags."""

    def do_GET(self) -> None:
        body = Path(self.directory, self.path.lstrip("/")).read_bytes()
        etag = f'"{sha256(body).hexdigest()[:16]}"'
        same = self.headers.get("If-None-Match") == etag
        self.send_response(304 if same else 200)
        self.send_header("ETag", etag)
        if not same:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(b"" if same else body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def web(folder: Path) -> Iterator[str]:
    """Where the page's folder is served."""
    files = ThreadingHTTPServer(("127.0.0.1", 0), partial(Files, directory=str(folder)))
    with files, ThreadPoolExecutor(1) as pool:
        pool.submit(files.serve_forever, poll_interval=0.02)
        try:
            yield f"http://127.0.0.1:{files.server_port}"
        finally:
            files.shutdown()


@pytest.fixture(autouse=True)
def modules(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Import a page's files while it is played, and forget them."""
    monkeypatch.syspath_prepend(folder)
    before = set(sys.modules)
    yield
    for made in {path.stem for path in folder.glob("*.py")} - before:
        sys.modules.pop(made, None)


def test_the_page_about_bookmarks_does_what_it_says(folder: Path) -> None:
    play(DOCS / "how-to" / "keep-bookmarks.md", folder, "http://127.0.0.1:8000")


@pytest.mark.spark
@pytest.mark.usefixtures("session")
def test_the_page_about_etags_does_what_it_says(folder: Path, web: str) -> None:
    play(DOCS / "how-to" / "follow-a-source-by-etag.md", folder, web)
