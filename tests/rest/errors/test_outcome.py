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
