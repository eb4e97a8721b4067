"""The demo shop, and its API."""

from collections.abc import Iterator

import pytest

from connectors.shop.api import serving
from connectors.shop.backend import Backend, Sizes


@pytest.fixture
def shop() -> Backend:
    return Backend(Sizes(products=120, orders=600, customers=4, visits=30))


@pytest.fixture
def address(shop: Backend) -> Iterator[str]:
    with serving(shop) as address:
        yield address
