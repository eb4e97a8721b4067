"""Which bodies with an empty list, or with none, say that there are records that could not be had."""

import pytest

from cdk import Json
from cdk.rest.errors.failed_body import is_error_page, reports_outage


@pytest.mark.parametrize(
    "fields",
    [
        {"error": "quota exceeded"},
        {"error": "OVER_QUOTA"},
        {"error": "insufficient_scope"},
        {"error": "timed out"},
        {"error": {"code": 429, "message": "Too many requests"}},
        {"error": {"status": "RESOURCE_EXHAUSTED"}},
        {"error": True, "message": "Rate limit reached, slow down"},
        {"errors": [{"message": "x"}, {"extensions": {"code": "THROTTLED"}}]},
        {"errors": ["Access denied"]},
        {"error_code": "RATE_LIMITED"},
        {"errorMessage": "TooManyRequestsException"},
        {"err": "REQUEST_LIMIT_EXCEEDED"},
        {"failure": "upstream timeout"},
        {"message": "Service temporarily unavailable"},
        {"Message": "The server is busy"},
        {"msg": "down for maintenance"},
        {"detail": "Your session has expired."},
        {"message": "Unauthorized"},
        {"message": "No items: the daily quota is used up"},
        {"message": "No data because the quota is exhausted"},
        {"message": "There is no quota left"},
        {"success": False, "message": "Please try again later"},
        {"error": "internal server error"},
        {"status": "error", "message": "Forbidden"},
        {"success": True, "errors": ["throttled"]},
        {"fault": {"faultstring": "Rate limit quota violation"}},
        {"ExceptionMessage": "The operation has timed out"},
        {"error_msg": "rate limit exceeded"},
        {"meta": {"error": "busy"}},
        {"Response": {"errors": [{"code": "THROTTLED"}]}},
    ],
)
def test_words_of_what_passes_or_must_be_looked_at_are_an_outage(fields: Json) -> None:
    assert reports_outage({**fields, "items": []}, ("items",))
    assert reports_outage(fields, ("items",))


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"success": False},
        {"success": False, "message": "no records found"},
        {"error": "page out of range"},
        {"error": "not found", "code": 404},
        {"error": "Invalid page token"},
        {"error": True},
        {"errors": 3},
        {"error": {"message": "No such page", "doc": "https://api.test/docs/rate-limits"}},
        {"errors": ["offset exceeds the number of records"]},
        {"id": 5, "state": "failed"},
        {"id": 5, "state": "failed", "error": "timeout of the job"},
        {"sha": "ab", "message": "Fix the timeout of busy queues"},
        {"status": "expired"},
        {"state": "busy"},
        {"type": "unavailable"},
        {"title": "Maintenance"},
        {"note": "quota"},
        {"meta": {"error": None, "message": "Expired vouchers"}},
        {"other": {"error": "busy"}},
        {"result": [{"error": "busy"}]},
        {"message": "No expired vouchers"},
        {"message": "No maintenance is scheduled"},
        {"message": "0 busy rooms found"},
        {"success": True, "message": "Unavailable dates"},
        {"status": "ok", "message": "Expired vouchers of the last week"},
        {"message": "Failed: nothing matches the filter"},
    ],
)
def test_what_finds_nothing_is_none(fields: Json) -> None:
    assert not reports_outage({**fields, "items": []}, ("items",))


@pytest.mark.parametrize("body", ["Too many requests", 429, False, ["slow down"], [{"items": []}, "slow down"]])
def test_a_value_that_is_no_object_is_an_error_once_there_were_records(body: Json) -> None:
    assert is_error_page(body, [("items",)], first=False)
    assert is_error_page(body, [("items",)], first=True) is (body == "Too many requests")


@pytest.mark.parametrize("body", [None, [], {}, [None], {"items": []}])
def test_nothing_is_no_error(body: Json) -> None:
    assert not is_error_page(body, [("items",)], first=False)


def test_an_outage_may_be_said_around_the_list() -> None:
    around: Json = {"meta": {"error": "busy"}, "data": {"error": "quota", "items": []}}

    assert reports_outage(around, ("data", "items"))
    assert not reports_outage({"data": [], "other": {"error": "busy"}}, ("data",))
    assert not reports_outage([], ())
