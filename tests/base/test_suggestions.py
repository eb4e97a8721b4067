from cdk.base.suggestions import did_you_mean, nearest


def test_a_slip_is_answered_with_the_name_that_was_meant() -> None:
    assert did_you_mean("usres", ["users", "orders"]) == "; did you mean 'users'?"
    assert nearest("usres", ["users", "orders"]) == "users"


def test_a_strange_name_is_answered_with_all_there_are() -> None:
    assert did_you_mean("zzz", ["users", "orders"]) == "; there is 'orders', 'users'"
    assert nearest("zzz", ["users"]) is None


def test_where_nothing_is_known_nothing_is_said() -> None:
    assert did_you_mean("users", []) == ""
