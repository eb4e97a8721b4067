"""The differential tests need DataHub, which `make test-peers` installs; without it they are not collected."""

from pathlib import Path

import pytest

from tests.peers.kits import PEERS, Both

collect_ignore = [] if any(PEERS.glob("lib/*/site-packages/acryl_datahub-*")) else ["test_datahub.py"]


@pytest.fixture
def both(tmp_path: Path) -> Both:
    return Both(tmp_path)
