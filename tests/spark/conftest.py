"""Where a test keeps a table."""

from pathlib import Path

import pytest


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder that is not there yet."""
    return tmp_path / "lake" / "users"
