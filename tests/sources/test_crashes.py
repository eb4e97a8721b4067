"""Crash reports: whatever a frame holds, no secret is in what is written, however it is spelled, and it stays small."""

import json
import stat
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdk.base.errors import BugError, ConfigError
from cdk.base.secret_masking import Secrets, spellings
from cdk.compat.airbyte.custom_object import CustomCodeError
from cdk.sources.crashes import crash_text, write_crash_report

SECRETS = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Zs", "Zl", "Zp"], exclude_characters="-*"), min_size=8, max_size=40
).filter(lambda text: len(set(text)) > 4)


@dataclass
class Account:
    user: str
    key: object = field(repr=False)


class Client:
    def __init__(self, **settings: object) -> None:
        self.settings = settings


class Broken:
    def __repr__(self) -> str:
        raise ValueError("no")


SHAPES: list[Callable[[str], object]] = [
    lambda secret: secret,
    lambda secret: {"value": [secret, {secret: 1}]},
    lambda secret: ("-" * 492) + secret,
    lambda secret: f"https://api.test/?q={quote(secret)}&u={quote(secret, safe='')}",
    lambda secret: b64encode(f"user:{secret}".encode()),
    lambda secret: secret.encode().hex(),
    lambda secret: json.dumps({"nested": json.dumps({"value": secret})}),
    lambda secret: secret.encode(),
    lambda secret: bytearray(secret.encode()),
    lambda secret: Account("me", secret),
    lambda secret: Client(anything=secret, more=Client(value={secret})),
    ValueError,
    lambda secret: [secret] * 10_000,
    lambda secret: (secret * 3_000)[:-3],
    lambda secret: ("-" * 19_990) + secret,
]


def crash(value: object, raised: BaseException, secrets: Secrets) -> str:
    """What is said of an error that is raised where a local has this value, and that another error led to."""

    def inner() -> None:
        held = value  # noqa: F841 - it is a local of the frame
        raise raised

    try:
        try:
            dict[str, int]().__getitem__("first")
        except KeyError:
            inner()
    except Exception as error:  # noqa: BLE001 - whatever it is
        return crash_text(error, secrets)
    return ""


@given(SECRETS, st.sampled_from(SHAPES), st.sampled_from(SHAPES))
def test_no_secret_of_the_config_is_in_a_report(
    secret: str, shape: Callable[[str], object], said: Callable[[str], object]
) -> None:
    secrets, config = (
        Secrets([secret]),
        {"api_key": secret, "base_url": f"https://x:{secret}@api.test", "page_size": 50},
    )

    text = crash(shape(secret), RuntimeError(f"failed with {said(secret)}"), secrets)
    with TemporaryDirectory() as folder:
        facts = {"sync": "4711", "stream": secret}
        path = write_crash_report(Path(folder), f"shop-{secret}", text, facts=facts, config=config, secrets=secrets)
        written = path.read_text() + path.name

    assert "RuntimeError" in written
    assert "held = " in written
    assert "'page_size': 50" in written
    assert len(written) < 2**18 + 2**14
    assert [name for name, form in spellings(secret).items() if form in written] == []
    assert secret[:6] not in next(line for line in written.splitlines() if "held = " in line)


@pytest.mark.parametrize(
    "value",
    [
        {"password": "p4ssw0rd-1"},
        {"headers": {"Authorization": "p4ssw0rd-1", "Cookie": ["p4ssw0rd-1"]}},
        [("api_key", "p4ssw0rd-1")],
        "X-Auth: Bearer p4ssw0rd-1",
        {"a": {"b": {"access_token": "p4ssw0rd-1"}}},
        Client(client_secret="p4ssw0rd-1"),
        Account("me", "p4ssw0rd-1"),
    ],
)
def test_what_is_called_like_a_secret_is_hidden_though_no_config_has_it(value: object) -> None:
    text = crash(value, RuntimeError("no"), Secrets())

    local = text.split("held = ")[1].splitlines()[0]
    assert "p4ssw0rd-1" not in local
    assert "****" in local


def test_a_report_has_the_locals_of_each_frame_and_of_the_errors_before(tmp_path: Path) -> None:
    text = crash(7, ZeroDivisionError("no"), Secrets())
    path = write_crash_report(
        tmp_path / "new", "shop-orders", text, facts={"sync": "4711"}, config={}, secrets=Secrets()
    )

    assert path == tmp_path / "new" / "crash-shop-orders.txt"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    written = path.read_text()
    assert "locals where KeyError was raised" in written
    assert "in crash.<locals>.inner\n    held = 7\n" in written
    assert "sync: 4711" in written
    assert "\ndeltalake: " in written


def test_values_that_cannot_be_shown_are_no_error_and_cycles_end() -> None:
    endless: list[object] = []
    endless.append(endless)

    text = crash([Broken(), endless, b"\xff\x00", "x" * 20_001], ValueError("no"), Secrets())

    assert "<Broken, whose repr raises ValueError>" in text
    assert "<list of 1>" in text
    assert "<2 bytes>" in text
    assert "<20,001 characters>" in text


@pytest.mark.parametrize(
    ("error", "unexpected"),
    [
        (ConfigError("no"), False),
        (KeyboardInterrupt(), False),
        (BugError("no"), True),
        (TypeError("no"), True),
        (CustomCodeError("no"), True),
    ],
)
def test_only_unexpected_errors_have_reports(error: BaseException, *, unexpected: bool) -> None:
    assert bool(crash_text(error, Secrets())) == unexpected


def test_the_token_of_a_page_is_shown_and_what_is_secret_in_it_is_not() -> None:
    token = {"page": 3, "session_token": "p4ssw0rd-1"}

    def fail(token: object) -> None:
        raise RuntimeError(type(token).__name__)

    with pytest.raises(RuntimeError) as raised:
        fail(token)

    text = crash_text(raised.value, Secrets())
    assert "token = dict('page': 3, 'session_token': ****)" in text
    with pytest.raises(RuntimeError) as raised:
        fail("p4ssw0rd-1")
    assert "    token = ****\n" in f"{crash_text(raised.value, Secrets())}\n"
