"""Rate limits that custom code makes itself, in a requester with a client of its own."""

from pathlib import Path

import pytest

from cdk.testing import read
from cdk.testing.mock_api import MockApi
from tests.compat.sources import URL, manifest, source

CODE = '''
from dataclasses import dataclass
from datetime import timedelta
from airbyte_cdk.sources.declarative.requesters import HttpRequester
from airbyte_cdk.sources.streams.call_rate import (
    APIBudget, HttpRequestMatcher, MovingWindowCallRatePolicy, Rate, UnlimitedCallRatePolicy,
)
from airbyte_cdk.sources.streams.http import HttpClient

RATE = Rate(limit=1, interval=timedelta(seconds=60))

class Budget(APIBudget):
    """Without a limit until the API sets one."""

    def update_from_response(self, request, response):
        policy = self.get_matching_policy(request)
        if response.status_code == 429 and isinstance(policy, UnlimitedCallRatePolicy):
            self._policies = [MovingWindowCallRatePolicy(matchers=policy._matchers, rates=[RATE])]

@dataclass
class Requester(HttpRequester):
    limited: str = ""

    def __post_init__(self, parameters):
        super().__post_init__(parameters)
        matchers = [HttpRequestMatcher(method="GET", url=self.limited)]
        self._http_client = HttpClient(
            name=self.name, error_handler=self.error_handler, authenticator=self._authenticator,
            api_budget=Budget(policies=[UnlimitedCallRatePolicy(matchers=matchers)]),
        )
'''


@pytest.mark.parametrize(
    ("limited", "calls"), [(f"{URL}/items", 2), (f"{URL}/other", 0), ("https://other.test/items", 0), ("", 2)]
)
def test_requests_wait_for_the_limit_that_a_budget_of_custom_code_sets(
    tmp_path: Path, limited: str, calls: int
) -> None:
    api, waited = MockApi(), list[float]()
    for page in (1, 2, 3):
        rows = [{"id": page}] if page < 3 else []
        at = api.get("/items", params={"page": page})
        if page == 1:
            at.returns(status=429, headers={"Retry-After": "7"})
        at.returns(json={"data": rows})
    pages = {
        "type": "DefaultPaginator",
        "page_token_option": {"type": "RequestOption", "inject_into": "request_parameter", "field_name": "page"},
        "pagination_strategy": {
            "type": "PageIncrement", "start_from_page": 1, "page_size": 1, "inject_on_first_request": True,
        },
    }  # fmt: skip
    requester = {
        "type": "CustomRequester",
        "class_name": "components.Requester",
        "limited": limited,
        "error_handler": {
            "type": "DefaultErrorHandler",
            "backoff_strategies": [{"type": "WaitTimeFromHeader", "header": "Retry-After"}],
        },
    }

    run = read(source(tmp_path, CODE, manifest(requester=requester, paginator=pages), api, waits=waited))

    assert (run.error, run.records) == (None, [{"id": 1}, {"id": 2}])
    assert len(waited) == 1 + calls
    assert waited[0] == 8
