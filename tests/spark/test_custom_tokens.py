"""Authenticators of connectors' own code: the driver of a sync has them obtain their tokens, for all tasks."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cdk import CredentialsError, Json
from cdk.declarative.manifest import Manifest
from cdk.declarative.model.context import Runtime
from cdk.declarative.source import ManifestSource
from cdk.rest import HttpTransport
from cdk.sources.manifests import AirbyteCode
from cdk.sync.reports.run_report import SyncResult
from tests.spark.datasource.test_tokens import Frame
from tests.spark.single_use import FIRST, FOUR, Login, config, manifest, run, serving
from tests.spark.test_single_use_tokens import check_hidden, check_whole

CODE = """
import requests
from airbyte_cdk.sources.declarative.auth import DeclarativeOauth2Authenticator
from airbyte_cdk.sources.declarative.auth.declarative_authenticator import DeclarativeAuthenticator
from airbyte_cdk.sources.declarative.auth.oauth import DeclarativeSingleUseRefreshTokenOauth2Authenticator


class SingleUse(DeclarativeSingleUseRefreshTokenOauth2Authenticator):
    def __init__(self, config, **_):
        super().__init__(
            config,
            config["address"] + "/token",
            client_id="me",
            client_secret=config["client_secret"],
            access_token_config_path=["access_token"],
            refresh_token_config_path=["refresh_token"],
            token_expiry_date_config_path=["token_expiry_date"],
        )


class Rotating(DeclarativeOauth2Authenticator):
    def refresh_access_token(self):
        answer = self._get_refresh_access_token_response()
        self.refresh_token = answer["refresh_token"]
        return answer["access_token"], answer["expires_in"]


class Own(Rotating):
    def get_auth_header(self):
        if self.token_has_expired():
            self.get_access_token()
        return {"Authorization": "Bearer " + self.access_token}


class Calling(Rotating):
    def __call__(self, request):
        request.headers["authorization"] = "Bearer " + self.get_access_token()
        return request


class Stranger:
    def __init__(self, config):
        self.config, self.held = config, None

    def get_access_token(self):
        if self.held is None:
            form = {"refresh_token": self.config["refresh_token"]}
            self.held = requests.post(self.config["address"] + "/token", data=form).json()["access_token"]
        return self.held

    def get_auth_header(self):
        return {"Authorization": "Bearer " + self.get_access_token()}


class Wrapped(DeclarativeAuthenticator):
    def __init__(self, inner):
        self.inner = inner

    def get_auth_header(self):
        return self.inner.get_auth_header()


class Chosen(DeclarativeAuthenticator):
    def __init__(self, config, key, oauth):
        self.used = key if config.get("key") else oauth

    def get_auth_header(self):
        return self.used.get_auth_header()


class Lazy(DeclarativeAuthenticator):
    def __init__(self, config):
        self.config = config

    def get_auth_header(self):
        return SingleUse(self.config).get_auth_header()
"""

OAUTH = {
    "token_refresh_endpoint": "{{ config['address'] }}/token",
    "client_id": "me",
    "client_secret": "{{ config['client_secret'] }}",
    "refresh_token": "{{ config['refresh_token'] }}",
}
KEY = {"type": "BearerAuthenticator", "api_token": "{{ config['key'] }}"}


def custom(name: str, **fields: Json) -> dict[str, Json]:
    return {"type": "CustomAuthenticator", "class_name": f"components.{name}", **fields}


OWN: Mapping[str, dict[str, Json]] = {
    "single use": custom("SingleUse"),
    "rotating": custom("Rotating", **OAUTH),
    "own header": custom("Own", **OAUTH),
    "callable": custom("Calling", **OAUTH),
    "wrapped": custom("Wrapped", inner=custom("SingleUse")),
    "chosen": custom("Chosen", key=KEY, oauth=custom("SingleUse")),
}


def made(folder: Path, authenticator: Mapping[str, Json]) -> ManifestSource:
    (folder / "components.py").write_text(CODE)
    runtime = Runtime(transport=HttpTransport(), folder=folder, custom=AirbyteCode())
    return ManifestSource(Manifest(manifest(authenticator)), runtime)


def sync(
    folder: Path, authenticator: Mapping[str, Json], address: str, *, interval: float = 0, **more: Json
) -> SyncResult:
    source = made(folder, authenticator)
    return run(folder / "lake", source, {**config(address), **more}, FOUR, interval)


def failures(result: SyncResult) -> list[str]:
    return [report.failure.message for report in result.streams if report.failure]


@pytest.mark.parametrize("kind", sorted(OWN))
def test_streams_tasks_and_syncs_share_the_token_of_a_login(kind: str, tmp_path: Path) -> None:
    with serving(Login()) as login:
        for _ in range(2):
            assert failures(sync(tmp_path, OWN[kind], login.address)) == []
            assert (login.calls, login.spent) == (1, 0)
        login.left.clear()  # the access token has ended meanwhile
        assert failures(sync(tmp_path, OWN[kind], login.address)) == []
        assert (login.calls, login.spent) == (2, 0)

    check_whole(tmp_path / "lake")
    check_hidden(tmp_path / "lake")


@pytest.mark.parametrize("kind", sorted(OWN))
def test_a_token_that_ends_early_is_replaced_by_the_driver_alone(kind: str, tmp_path: Path) -> None:
    with serving(Login(uses=9)) as login:
        assert failures(sync(tmp_path, OWN[kind], login.address, interval=30)) == []

    assert login.spent == 0
    good = login.reads - sum(-left for left in login.left.values() if left < 0)
    assert 1 < login.calls <= 1 + good // 9
    check_whole(tmp_path / "lake")


def test_another_class_with_the_method_is_asked_once_for_all_tasks_of_a_stream(tmp_path: Path) -> None:
    with serving(Login(single_use=False)) as login:
        assert failures(sync(tmp_path, custom("Stranger"), login.address)) == []

    assert login.calls == 2
    check_whole(tmp_path / "lake")


def test_a_login_that_the_config_does_not_choose_is_left_alone(tmp_path: Path) -> None:
    oauth = {"type": "OAuthAuthenticator", **OAUTH, "refresh_token": "of-nobody"}
    with serving(Login()) as login:
        login.left["key-1"] = 1_000
        for other in (oauth, custom("Rotating", **{**OAUTH, "refresh_token": "of-nobody"})):
            chosen = custom("Chosen", key=KEY, oauth=other)
            assert failures(sync(tmp_path, chosen, login.address, key="key-1")) == []

    assert login.calls == 0


def test_a_refused_login_is_said_and_not_tried_by_tasks(tmp_path: Path) -> None:
    with serving(Login()) as login:
        login.refresh = "refresh-token-that-nobody-has"
        said = failures(sync(tmp_path, OWN["rotating"], login.address))

    assert ["no access token" in words for words in said] == [True, True]
    assert login.calls == len(said)
    assert FIRST not in str(said)


def test_code_that_makes_its_authenticator_for_each_request_uses_up_no_token(tmp_path: Path) -> None:
    with serving(Login()) as login:
        result = sync(tmp_path, custom("Lazy"), login.address)

    assert all("a task needs an access token" in words for words in failures(result))
    assert len(failures(result)) == 2
    assert login.calls == 0


@pytest.mark.parametrize("kind", sorted(OWN))
def test_frames_of_spark_have_the_token_of_the_plan(kind: str, tmp_path: Path) -> None:
    (tmp_path / "components.py").write_text(CODE)
    (tmp_path / "manifest.yaml").write_text(json.dumps(manifest(OWN[kind])))
    with serving(Login()) as login:
        given: dict[str, Any] = {
            "manifest": str(tmp_path / "manifest.yaml"),
            "allow_custom_code": "true",
            "secret_config": json.dumps(config(login.address)),
            "stream": "items",
            "target": str(tmp_path / "lake"),
        }
        rows = [Frame(given).ids() for _ in range(2)]
        assert rows[0] == rows[1] != []
        assert (login.calls, login.spent) == (1, 0)
        login.left.clear()
        with pytest.raises(CredentialsError, match="before it expired"):
            Frame(given).ids()
        assert (login.calls, login.spent) == (1, 0)
