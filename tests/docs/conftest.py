"""The demo shop's API, and an empty folder to play a page in."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors.shop.api import serving
from connectors.shop.backend import Backend


@pytest.fixture
def address() -> Iterator[str]:
    """Where a shop of the usual size answers."""
    with serving(Backend()) as address:
        yield address


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of a page."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setattr(sys, "path", sys.path.copy())
    return tmp_path
