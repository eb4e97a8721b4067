"""Syncs of an API that has one session a user: each login ends the one before, whoever reads."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdk import Json
from cdk.declarative.manifest import Manifest
from cdk.declarative.model.context import Runtime
from cdk.declarative.source import ManifestSource
from cdk.rest import HttpTransport
from cdk.sync.reports.run_report import SyncResult
from cdk.sync.tasks.workers import Workers
from tests.spark.single_use import FOUR, Login, config, manifest, run, serving
from tests.spark.test_single_use_tokens import check_whole

PATH = "{{ config['address'] }}/token"
KINDS: Mapping[str, dict[str, Json]] = {
    "session": {
        "type": "SessionTokenAuthenticator",
        "login_requester": {
            "type": "HttpRequester",
            "url": PATH,
            "http_method": "POST",
            # What is sent differs from one process to the next; the login is the same.
            "request_headers": {"X-Sent": "{{ now_utc() }}"},
        },
        "session_token_path": ["access_token"],
        "expiration_duration": "PT1H",
        "request_authentication": {"type": "Bearer"},
    },
    "legacy": {
        "type": "LegacySessionTokenAuthenticator",
        "header": "Authorization",
        "login_url": PATH,
        "validate_session_url": "{{ config['address'] }}/items",
        "session_token_response_key": "access_token",
        "username": "me",
        "password": "{{ config['client_secret'] }}",
        "session_token": "Bearer of-last-year",
    },
}


class OneSession(Login):
    """A login ends the session before it."""

    def token(self, given: str) -> Mapping[str, Json] | None:  # noqa: ARG002 - anybody may log in
        with self.lock:
            self.calls += 1
            self.left.clear()
            access = f"access-token-{self.calls}-of-the-server"
            self.left[access] = self.uses
            return {"access_token": access}


def sync(folder: Path, kind: str, address: str, workers: Workers | None) -> SyncResult:
    source = ManifestSource(Manifest(manifest(KINDS[kind])), Runtime(transport=HttpTransport()))
    return run(folder, source, config(address), workers, 0 if workers else 30)


def check(folder: Path, kind: str, workers: Workers | None) -> None:
    with serving(OneSession()) as login:
        result = sync(folder, kind, login.address, workers)

    assert result.ok, [report.failure for report in result.streams]
    assert login.calls == 1
    check_whole(folder)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_tasks_share_one_login(kind: str, tmp_path: Path) -> None:
    check(tmp_path, kind, FOUR)


@pytest.mark.spark
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_tasks_of_spark_share_the_login_of_the_driver(
    session: SparkSession,  # noqa: ARG001 - it is the one that runs
    kind: str,
    tmp_path: Path,
) -> None:
    check(tmp_path, kind, None)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_session_that_ends_early_is_replaced_once_for_all_tasks(kind: str, tmp_path: Path) -> None:
    with serving(OneSession(uses=9)) as login:
        result = sync(tmp_path, kind, login.address, FOUR)

    assert result.ok, [report.failure for report in result.streams]
    assert login.calls <= 1 + login.reads // 9
    check_whole(tmp_path)
