"""What needs a peer is collected only where that is.

DataHub and dlt are installed by `make test-peers`; the tables of airbyte-cdk lie in the folder that PEER_TABLES names,
as `make peer-tables` says.
"""

import os
from pathlib import Path

import pytest

from tests.peers.kits import DLT, PEERS, Both

collect_ignore = [] if any(PEERS.glob("lib/*/site-packages/acryl_datahub-*")) else ["test_datahub.py"]
if not any(DLT.glob("lib/*/site-packages/dlt-*")):
    collect_ignore.append("test_dlt.py")
if not Path(os.environ.get("PEER_TABLES") or "-", "unit_tests").is_dir():
    collect_ignore.append("test_tables.py")


@pytest.fixture
def both(tmp_path: Path) -> Both:
    return Both(tmp_path)
