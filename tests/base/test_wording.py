from cdk.base.wording import counted, cut, did_you_mean, first_few, listed, nearest


def test_a_slip_is_answered_with_the_name_that_was_meant() -> None:
    assert did_you_mean("usres", ["users", "orders"]) == "; did you mean 'users'?"
    assert nearest("usres", ["users", "orders"]) == "users"


def test_a_strange_name_is_answered_with_all_there_are() -> None:
    assert did_you_mean("zzz", ["users", "orders"]) == "; there is 'orders', 'users'"
    assert nearest("zzz", ["users"]) is None


def test_where_nothing_is_known_nothing_is_said() -> None:
    assert did_you_mean("users", []) == ""


def test_of_a_long_list_the_first_are_named_and_the_rest_is_counted() -> None:
    assert listed("abc", 3) == "a, b, c"
    assert listed("abc", None) == "a, b, c"
    assert listed(range(1_234), 2, repr) == "0, 1 and 1,232 more"
    assert [*first_few("abc", 3)] == ["a", "b", "c"]
    assert [*first_few("abcd", 2, str.upper)] == ["A", "B", "and 2 more"]


def test_of_a_long_text_the_beginning_is_shown() -> None:
    assert cut("abc", 3) == "abc"
    assert cut("abcd", 3) == "ab…"


def test_nouns_follow_their_number() -> None:
    assert [counted(n, "slice") for n in (0, 1, 2000)] == ["0 slices", "1 slice", "2,000 slices"]
