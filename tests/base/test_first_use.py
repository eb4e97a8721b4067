import re

import pytest

from cdk.base.first_use import lazy_pattern


def test_a_lazy_pattern_matches_as_the_compiled_one() -> None:
    lazy, compiled = lazy_pattern(r"(\w)=(\d+)", re.IGNORECASE), re.compile(r"(\w)=(\d+)", re.IGNORECASE)

    for _ in range(2):
        assert lazy.findall("a=1, B=22") == compiled.findall("a=1, B=22") == [("a", "1"), ("B", "22")]
        assert lazy.sub(r"\2", "a=1") == "1"
        assert lazy.fullmatch("a=1;") is None
    assert lazy.pattern == compiled.pattern


def test_a_lazy_pattern_of_bytes_matches_bytes() -> None:
    assert lazy_pattern(rb"\d+").findall(b"1 22") == [b"1", b"22"]


def test_an_expression_with_a_mistake_is_an_error_at_its_first_use() -> None:
    broken = lazy_pattern("(")

    with pytest.raises(re.error, match="unterminated subpattern"):
        broken.match("")


def test_a_lazy_pattern_names_the_methods_that_it_has() -> None:
    with pytest.raises(AttributeError, match=r"a lazy pattern has no attribute 'groupindex'; it has fullmatch, match"):
        _ = lazy_pattern("a").groupindex
