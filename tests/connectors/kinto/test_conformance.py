from collections.abc import Mapping
from typing import ClassVar

import pytest

from cdk import Json
from cdk.testing import ConnectorSuite
from connectors.kinto import Kinto
from tests.connectors.kinto.conftest import PASSWORD, USER, Server


@pytest.fixture(scope="class")
def filled(request: pytest.FixtureRequest, _running: Server) -> None:
    _running.empty()
    _running.put_records("blog/posts", 5)
    _running.put_records("blog/comments", 4)
    _running.delete("blog/collections/posts/records/r001")
    auth = {"type": "basic", "username": USER, "password": PASSWORD}
    request.cls.config = {"server": _running.url, "auth": auth, "page_size": 3}


@pytest.mark.usefixtures("filled")
class TestKinto(ConnectorSuite):
    """Against the real server, deletes included."""

    source = Kinto
    config: ClassVar[Mapping[str, Json]] = {}
