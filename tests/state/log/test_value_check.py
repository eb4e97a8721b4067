from base64 import b64encode
from urllib.parse import quote, quote_plus

import pytest

from cdk import StateError
from cdk.base.values import Json
from cdk.state.log.canonical_json import dumps_canonical
from cdk.state.log.value_check import SecretCheck

SECRET = 'p&ss "w0rd/ü+'
PLACES = {
    "as it is": ({"cursor": {"url": f"https://h/?token={SECRET}&page=2"}}, "stream:users.cursor.url"),
    "in a list": ([{"x": 1}, {"x": SECRET}], "stream:users[1].x"),
    "in a URL": ({"next": f"https://h/?token={quote(SECRET, safe='')}"}, "stream:users.next"),
    "in a form": ({"next": f"token={quote_plus(SECRET)}"}, "stream:users.next"),
    "in base64": ({"header": b64encode(SECRET.encode()).decode()}, "stream:users.header"),
    "as a password": ({"header": f"Basic {b64encode(f'me:{SECRET}'.encode()).decode()}"}, "stream:users.header"),
    "behind two letters": ({"header": b64encode(f"ab{SECRET}cd".encode()).decode()}, "stream:users.header"),
}


@pytest.mark.parametrize(("value", "where"), PLACES.values(), ids=PLACES.keys())
def test_a_secret_is_refused_with_its_place_and_not_shown(value: Json, where: str) -> None:
    with pytest.raises(StateError, match="found a secret of the config") as refused:
        SecretCheck([SECRET]).refuse(dumps_canonical(value, "x"), "stream:users")

    assert refused.value.path == where
    assert SECRET not in str(refused.value)


def test_a_secret_that_is_a_key_is_not_shown_in_the_place() -> None:
    with pytest.raises(StateError) as refused:
        SecretCheck([SECRET]).refuse(dumps_canonical({"keys": {SECRET: 1}}, "x"), "stream:users")

    assert refused.value.path == "stream:users.keys.****"


def test_a_secret_that_is_a_number_is_found() -> None:
    with pytest.raises(StateError):
        SecretCheck(["12345678"]).refuse(dumps_canonical({"account": 12345678}, "x"), "stream:users")


@pytest.mark.parametrize("value", [{"cursor": "2024-01-01"}, {"page": 3}, {"url": "https://h/?page=2"}, {}])
def test_what_holds_no_secret_is_let_through(value: Json) -> None:
    SecretCheck([SECRET, "abcdef"]).refuse(dumps_canonical(value, "x"), "stream:users")


def test_a_secret_that_names_of_every_state_contain_is_not_looked_for() -> None:
    state: Json = {"__ab_no_cursor_state_message": True, "states": [{"partition": {}, "cursor": {}}]}

    SecretCheck(["messag", "cursor", "partition"]).refuse(dumps_canonical(state, "x"), "stream:users")


def test_short_secrets_are_not_looked_for() -> None:
    SecretCheck(["", "abc", "12345"]).refuse(dumps_canonical({"cursor": "abc12345"}, "x"), "stream:users")
