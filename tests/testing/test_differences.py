from cdk.testing import at, each, state, state_differences


def test_each_value_that_differs_has_a_line_of_its_own() -> None:
    before = state(users=at(page=2), posts=each(({"user": 1}, {"written_at": "a"}), ({"user": 2}, {"written_at": "b"})))
    after = state(users=at(page=3), posts=each(({"user": 1}, {"written_at": "a"}), ({"user": 3}, {"written_at": "b"})))

    assert state_differences(before, before) == []
    assert state_differences(before, after) == [
        "users page: 2 -> 3",
        'posts {"user":2} written_at: "b" -> nothing',
        'posts {"user":3} written_at: nothing -> "b"',
    ]
