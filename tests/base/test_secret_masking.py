import json
from base64 import b32encode, b64encode, urlsafe_b64encode
from collections.abc import Callable
from html import escape
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdk.base.secret_masking import SecretMarks, Secrets, secret_values, spellings
from cdk.base.values import Json, JsonObject, JsonSchema

SCHEMA: Json = {
    "properties": {
        "host": {"type": "string"},
        "token": {"type": "string", "airbyte_secret": True},
        "pin": {"type": "integer", "airbyte_secret": True},
        "credentials": {
            "oneOf": [
                {"properties": {"kind": {"const": "key"}, "api_key": {"airbyte_secret": True}}},
                {
                    "properties": {
                        "kind": {"const": "oauth"},
                        "client": {"properties": {"secret": {"airbyte_secret": True}}},
                    }
                },
            ]
        },
        "accounts": {"items": {"properties": {"password": {"airbyte_secret": True}}}},
        "headers": {"type": "object", "airbyte_secret": True},
    }
}


def test_secrets_are_found_wherever_the_schema_marks_them() -> None:
    config: JsonObject = {
        "host": "h",
        "token": "T",
        "pin": 1234,
        "credentials": {"kind": "oauth", "api_key": "K", "client": {"secret": "S"}},
        "accounts": [{"password": "P1"}, {"password": "P2"}],
        "headers": {"X-Auth": "H", "deep": ["D", None, True]},
    }

    assert set(secret_values(SCHEMA, config)) == {"T", "1234", "K", "S", "P1", "P2", "H", "D"}


def test_a_config_of_another_shape_has_no_secrets_and_no_error() -> None:
    assert list(secret_values(SCHEMA, {"credentials": "text", "accounts": {"password": "x"}, "token": ""})) == []


def test_the_longest_secret_is_hidden_first() -> None:
    assert Secrets(["abc", "abcdef"]).mask("x abcdef y abc") == "x **** y ****"


@pytest.mark.parametrize(
    "spell", [str, json.dumps, repr, lambda s: s.replace(" ", "+").replace('"', "%22").replace("\n", "%0A")]
)
def test_a_secret_is_hidden_in_other_spellings(spell: object) -> None:
    secret = 'a "b"\nc'

    assert callable(spell)
    masked = Secrets([secret]).mask(f"before {spell(secret)} after")

    assert "b" not in masked.removeprefix("before")
    assert "****" in masked


def test_secrets_learned_during_a_run_are_hidden_too() -> None:
    secrets = Secrets()
    assert secrets.mask("tok") == "tok"

    secrets.add("tok", "")

    assert secrets.mask("tok") == "****"


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": "no"},
        {"properties": {"token": "no"}},
        {"oneOf": 1},
        {"anyOf": [None]},
        {"properties": {"token": 1}},
    ],
)
def test_a_schema_that_is_none_hides_nothing(schema: JsonSchema) -> None:
    assert list(secret_values(schema, {"token": "t"})) == []


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=8, max_size=40)
SPELLINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "url": lambda text: quote(text, safe=""),
    "url, twice": lambda text: quote(quote(text, safe=""), safe=""),
    "url, but for slashes": quote,
    "form": quote_plus,
    "json": lambda text: json.dumps(text)[1:-1],
    "json, real letters": lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    "json, every letter": lambda text: "".join(f"\\u{ord(c):04x}" if ord(c) < 0x10000 else c for c in text),
    "python": lambda text: repr(text)[1:-1],
    "html": escape,
    "hex": lambda text: text.encode().hex(),
    "HEX": lambda text: text.encode().hex().upper(),
    "base64": lambda text: b64encode(text.encode()).decode(),
    "base64, for URLs": lambda text: urlsafe_b64encode(text.encode()).decode(),
    "base64, in a URL": lambda text: quote(b64encode(text.encode()).decode(), safe=""),
    "base32": lambda text: b32encode(text.encode()).decode(),
}


@given(TEXTS, st.sampled_from(sorted(SPELLINGS)), st.text("abc =:/", max_size=5), st.text("abc =:/", max_size=5))
def test_no_usual_spelling_of_a_secret_is_shown(secret: str, spelling: str, before: str, behind: str) -> None:
    spelled = SPELLINGS[spelling](secret)
    secrets = Secrets([secret])

    masked = secrets.mask(f"{before}{spelled}{behind}")

    # Where a code mixes letters with their neighbours, one at each end is left.
    assert "****" in masked
    assert len(masked) <= len(before) + len(behind) + len("****") + 10
    assert secrets.holds(spelled)


@given(secret=TEXTS, before=st.binary(max_size=4), behind=st.binary(max_size=4), urls=st.booleans())
def test_a_secret_between_others_is_hidden_in_base64(secret: str, before: bytes, behind: bytes, *, urls: bool) -> None:
    encode = urlsafe_b64encode if urls else b64encode
    spelled = encode(before + secret.encode() + behind).decode()

    assert "****" in Secrets([secret]).mask(f"Authorization: Basic {spelled}")


@given(TEXTS, st.data())
def test_a_secret_is_hidden_when_only_some_letters_are_escaped(secret: str, data: st.DataObject) -> None:
    ways: list[Callable[[str], str]] = [
        lambda c: quote(c, safe=""),
        lambda c: "".join(f"%{b:02x}" for b in c.encode()),
        str,
    ]
    spelled = "".join(data.draw(st.sampled_from(ways))(letter) for letter in secret)

    assert Secrets([secret]).mask(f"a {spelled} b") == "a **** b"


def test_the_lines_of_a_key_are_hidden_one_by_one() -> None:
    key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nAQEFAASCBKcwggSjAgEAAoIB\n-----END PRIVATE KEY-----"

    assert "AQEFAASC" not in Secrets([key]).mask("cannot read the line AQEFAASCBKcwggSjAgEAAoIB")


def test_what_is_no_secret_is_shown() -> None:
    text = "GET https://api.test/items?page=2 answered 500: c2VjcmV0, 736563, %41"

    assert Secrets(["a-long-secret", "0123456789abcdef"]).mask(text) == text


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("cannot connect to http://me:pass@10.0.0.1:9000/b", "cannot connect to http://****@10.0.0.1:9000/b"),
        ("proxy 'http://:p@ss%2F@proxy:3128'", "proxy 'http://****@proxy:3128'"),
        ("https://api.test/a:b@c?d=e:f@g", "https://api.test/a:b@c?d=e:f@g"),
        ("s3://bucket/x me:you@there", "s3://bucket/x me:you@there"),
    ],
)
def test_logins_in_urls_are_hidden(text: str, masked: str) -> None:
    assert Secrets().mask(text) == masked


@pytest.mark.parametrize("secret", ["1", "ab", "p-1", "x&y"])
def test_a_very_short_secret_is_hidden_as_a_word_and_not_inside_others(secret: str) -> None:
    secrets = Secrets([secret, "a-long-secret"])

    for text in ("{}", "key={}&n=2", '{{"key": "{}"}}', "Bearer {}", "a-long-secret {}"):
        shown = secrets.mask(text.format(secret))
        assert shown == text.format("****").replace("a-long-secret", "****")
    around = f"id7{secret}7 X{secret}X _{secret}_"
    assert secrets.mask(around) == around
    assert not secrets.holds(around)


SECRETS = st.text(st.characters(codec="utf-8", exclude_characters="<>"), min_size=4, max_size=20).filter(
    # A word may be one of what is around the secret, such as True, or of its mark.
    lambda text: not (text.isascii() and text.isalpha())
)
PLAIN = st.text("xyz ?&=/", max_size=6)


@given(SECRETS, PLAIN, PLAIN, st.data())
def test_what_is_put_back_is_what_was_cut_out(secret: str, before: str, behind: str, data: st.DataObject) -> None:
    spelled = data.draw(st.sampled_from(sorted(spellings(secret).values())))
    token = {"url": f"{before}{spelled}{behind}", "deep": [{"k": spelled}, 7, None, True]}
    marks = SecretMarks([("credentials.key", secret)])

    cut = marks.cut(token)

    assert not Secrets([secret]).holds(str(cut).replace("<secret credentials.key", ""))
    assert marks.restore(cut) == token


def test_a_longer_secret_leaves_no_rest_of_itself() -> None:
    marks = SecretMarks([("user", "abcd"), ("key", "abcd-efgh")])

    assert marks.cut("x abcd-efgh y abcd") == "x <secret key plain> y <secret user plain>"


def test_a_secret_that_is_a_word_of_the_marks_is_cut_once() -> None:
    marks = SecretMarks([("a", "secret"), ("b", "plain")])

    assert marks.cut("secret plain") == "<secret a plain> <secret b plain>"
    assert marks.restore(marks.cut("secret plain")) == "secret plain"


def test_a_mark_of_a_secret_that_is_gone_stays() -> None:
    assert SecretMarks([("new", "abcd")]).restore({"t": "<secret old plain>"}) == {"t": "<secret old plain>"}


def test_short_texts_are_not_cut() -> None:
    assert SecretMarks([("pin", "123")]).cut({"page": "1234"}) == {"page": "1234"}
