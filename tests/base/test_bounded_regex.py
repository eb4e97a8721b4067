import pickle
from collections.abc import Callable

import pytest

from cdk.base import bounded_regex
from cdk.base.bounded_regex import Pattern
from cdk.base.errors import FatalError

ENDLESS = r"^(a|a)*$"


def test_an_expression_finds_what_fits() -> None:
    found = Pattern(r"(\d+) seconds").search("wait 30 seconds")

    assert found is not None
    assert found[1] == "30"
    assert Pattern("b").match("ab") is None
    assert Pattern(r"(a)(b)").sub(r"\2\1", "xab") == "xba"


@pytest.mark.parametrize("use", [Pattern.search, Pattern.match, lambda pattern, text: pattern.sub("", text)])
def test_an_expression_that_would_never_end_is_stopped_and_named(
    use: Callable[[Pattern, str], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert bounded_regex._SECONDS == 2
    monkeypatch.setattr(bounded_regex, "_SECONDS", 0.1)

    with pytest.raises(
        FatalError, match=r"'\^\(a\|a\)\*\$' was stopped after 0\.1 seconds on a string of 41 characters"
    ):
        use(Pattern(ENDLESS), "a" * 40 + "b")


def test_what_is_no_expression_is_told_when_it_is_used() -> None:
    pattern = Pattern("(")

    with pytest.raises(FatalError, match=r"'\(' is not a valid regular expression: missing \)"):
        pattern.search("")


def test_an_expression_travels() -> None:
    travelled: Pattern = pickle.loads(pickle.dumps(Pattern("a")))  # noqa: S301 - made here

    assert travelled.search("a") is not None
