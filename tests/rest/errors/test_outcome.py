import pytest

from cdk.base.errors import RateLimited
from cdk.rest import Action, Request
from cdk.rest.errors.outcome import Outcome, final_error
from tests.rest.api import response

SECRET = Request("GET", "https://api.test/users", {"api_key": "kkkk"})


def test_a_told_text_shows_no_secret_and_leaves_the_usual_words_as_detail() -> None:
    answer = response({"error": "bad kkkk"}, status=403, request=SECRET)

    error = final_error(Outcome(Action.FAIL, f"see {SECRET.full_url}"), answer)

    assert error.message == "see https://api.test/users?api_key=****"
    assert "answered 403 Forbidden" in error.detail
    assert "kkkk" not in error.detail


def test_a_signal_shows_no_secret() -> None:
    answer = response({"error": "bad kkkk"}, status=400, request=SECRET)

    error = final_error(Outcome(Action.REDUCE_PAGE_SIZE), answer)

    assert "kkkk" not in error.message


@pytest.mark.parametrize("text", ["", "slow down"])
@pytest.mark.parametrize("action", [Action.RATE_LIMITED, Action.FAIL])
def test_an_api_that_asks_for_a_wait_is_heard_also_where_a_rule_has_its_own_words(action: Action, text: str) -> None:
    error = final_error(Outcome(action, text), response(status=429), wait=30)

    assert isinstance(error, RateLimited)
    assert error.wait == 30
    assert error.message.startswith(text or "GET https://api.test/users answered 429")


@pytest.mark.parametrize("text", ["", "slow down"])
@pytest.mark.parametrize("status", [200, 400, 401, 403, 404, 418, 503])
def test_what_a_rule_calls_a_rate_limit_ends_as_one_whatever_its_status(status: int, text: str) -> None:
    error = final_error(Outcome(Action.RATE_LIMITED, text), response({"message": "too many"}, status=status), wait=30)

    assert type(error) is RateLimited
    assert (error.wait, error.failure_type) == (30, "transient_error")
    usual = f"answered {status}: too many, which the error handler treats as a rate limit; try again later"
    assert (error.detail if text else error.message).endswith(usual)
    assert not text or error.message == text
