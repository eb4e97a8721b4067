from collections.abc import Iterator, Mapping
from typing import ClassVar

import pytest

from cdk import Json
from cdk.testing import ConnectorSuite
from connectors.shop import Shop
from connectors.shop.api import serving
from connectors.shop.backend import Backend, Sizes


@pytest.fixture(scope="class")
def shop(request: pytest.FixtureRequest) -> Iterator[None]:
    with serving(Backend(Sizes(products=60, orders=6, customers=2, visits=21))) as address:
        request.cls.config = {"base_url": address}
        yield


@pytest.mark.usefixtures("shop")
class TestShop(ConnectorSuite):
    """Against its server, with time as it is there."""

    source = Shop
    config: ClassVar[Mapping[str, Json]] = {}
    now = "2024-06-01T00:00:00Z"
