from pathlib import Path

import pytest

from cdk.testing import ConnectorSuite
from cdk.testing.cassettes import record
from cdk.testing.cassettes.interactions import save
from tests.testing.conformance.broken import CONFIG, Ledger, ledger_api


@pytest.fixture(scope="class")
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> None:
    path: Path = tmp_path_factory.mktemp("cassettes") / "ledger.yaml"
    save(path, record(Ledger(), CONFIG, sends=ledger_api().send))
    request.cls.cassette = path


@pytest.mark.usefixtures("recorded")
class TestRecordedLedger(ConnectorSuite):
    """Without an API, and without a config: the cassette has both."""

    source = Ledger
