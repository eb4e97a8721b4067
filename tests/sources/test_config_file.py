import json
import resource
from pathlib import Path

import pytest

from cdk.sources.config_file import save_config

SAVED = {"key": "k1"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(SAVED))
    file.chmod(0o600)
    return file


def test_a_config_is_replaced_with_its_rights(file: Path) -> None:
    assert save_config(file, {"key": "k2"}) is None

    assert json.loads(file.read_text()) == {"key": "k2"}
    assert file.stat().st_mode & 0o777 == 0o600
    assert list(file.parent.iterdir()) == [file]


def test_a_config_that_cannot_be_written_stays_and_leaves_no_draft(file: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        why = save_config(file, {"key": "k2", "refresh_token": "r" * 2000})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert why is not None
    assert "it cannot be saved" in why
    assert json.loads(file.read_text()) == SAVED
    assert list(file.parent.iterdir()) == [file]
