"""Syncs of an API whose refresh tokens work once: one request for each token's life, whoever reads, run after run."""

import json
import signal
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from cdk.base.secret_masking import Secrets
from cdk.sources.config_file import ConfigEvents
from tests.spark.single_use import (
    ALL,
    CLIENT_SECRET,
    FIRST,
    FOUR,
    SOURCES,
    Login,
    config,
    manifest_items,
    run,
    serving,
    sync,
    sync_apart,
)

KINDS = sorted(SOURCES)


def ids(folder: Path, name: str) -> list[int]:
    return sorted(pq.read_table(DeltaTable(str(folder / name)).file_uris())["id"].to_pylist())


def check_whole(folder: Path) -> None:
    for name in ("items", "more_items"):
        assert ids(folder, name) == ALL


def check_hidden(folder: Path) -> None:
    """No token lies in clear beside the rows, and what is sealed is for its user alone."""
    secrets = [FIRST.encode(), CLIENT_SECRET.encode(), b"-of-the-server"]
    files = [path for path in folder.rglob("*") if path.is_file()]
    for path in files:
        content = path.read_bytes()
        assert not any(secret in content for secret in secrets), path
    tokens = [path for path in files if path.parent == folder / "_cdk" / "tokens"]
    assert [path.stat().st_mode & 0o777 for path in tokens] == [0o600]


@pytest.mark.parametrize("kind", KINDS)
def test_four_tasks_and_many_commits_need_one_token(kind: str, tmp_path: Path) -> None:
    with serving(Login()) as login:
        result = sync(tmp_path, kind, login.address)

    assert result.ok, [report.failure for report in result.streams]
    assert (login.calls, login.spent) == (1, 0)
    check_whole(tmp_path)
    check_hidden(tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_a_token_that_ends_early_is_replaced_once_for_all_tasks(kind: str, tmp_path: Path) -> None:
    with serving(Login(uses=9)) as login:
        result = sync(tmp_path, kind, login.address, interval=30)

    assert result.ok, [report.failure for report in result.streams]
    assert login.spent == 0
    good = login.reads - sum(-left for left in login.left.values() if left < 0)
    assert login.calls <= 1 + good // 9
    check_whole(tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_the_next_sync_goes_on_with_the_token_that_was_stored(kind: str, tmp_path: Path) -> None:
    with serving(Login()) as login:
        for calls in (1, 1):
            assert sync(tmp_path, kind, login.address).ok
            assert (login.calls, login.spent) == (calls, 0)
        login.left.clear()  # the access token has ended meanwhile
        assert sync(tmp_path, kind, login.address).ok
        assert (login.calls, login.spent) == (2, 0)

    check_whole(tmp_path)
    check_hidden(tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_a_sync_that_is_killed_anywhere_loses_no_token(kind: str, tmp_path: Path) -> None:
    with serving(Login(uses=4)) as login:
        for reads in (1, 3, 6, 10):
            login.kill_at = login.reads + reads
            assert sync_apart(tmp_path, kind, login) == -signal.SIGKILL
        login.kill_at = 0
        assert sync_apart(tmp_path, kind, login) == 0

    assert login.spent == 0
    check_whole(tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_token_in_the_config_counts_more_than_the_stored_one(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(Login()) as login:
        assert sync(tmp_path, kind, login.address).ok
        login.left.clear()
        login.refresh = "refresh-token-of-a-new-login"
        monkeypatch.setattr("tests.spark.single_use.FIRST", login.refresh)
        assert sync(tmp_path, kind, login.address).ok

    assert login.spent == 0


def test_a_stored_token_that_is_refused_says_what_to_do(tmp_path: Path) -> None:
    with serving(Login()) as login:
        assert sync(tmp_path, "python", login.address).ok
        login.left.clear()
        login.refresh = "refresh-token-that-nobody-has"
        result = sync(tmp_path, "python", login.address)

    messages = {report.failure.message for report in result.streams if report.failure}
    assert len(messages) == 1
    assert "re-authenticate" in messages.pop()
    assert login.calls == 2 + 1


def test_a_target_that_cannot_keep_the_next_token_is_found_before_this_one_is_used(tmp_path: Path) -> None:
    with serving(Login()) as login:
        (tmp_path / "_cdk").mkdir()
        (tmp_path / "_cdk" / "tokens").write_text("no folder")
        result = sync(tmp_path, "manifest", login.address)

    assert not result.ok
    assert login.calls == 0
    assert all("has not been used" in str(report.failure) for report in result.streams)


def test_an_ordinary_token_is_obtained_once_and_not_stored(tmp_path: Path) -> None:
    with serving(Login(single_use=False)) as login:
        assert sync(tmp_path, "python", login.address).ok

    assert login.calls == 1
    assert not (tmp_path / "_cdk" / "tokens").exists()


@pytest.mark.parametrize("kept_in", ["config.json", "config.yaml", "variables.json"])
def test_the_file_of_the_config_gets_the_new_token_where_that_spoils_nothing(kept_in: str, tmp_path: Path) -> None:
    file = tmp_path / kept_in
    with serving(Login()) as login:
        settings = config(login.address)
        file.write_text(json.dumps({**settings, "address": "${ADDRESS}"} if "variables" in kept_in else settings))
        before, secrets, source = file.read_text(), Secrets(), manifest_items()
        source.prepare(settings)
        source.events = ConfigEvents(secrets, file)
        assert run(tmp_path / "lake", source, settings, FOUR, 0).ok

    assert secrets.mask("access-token-1-of-the-server refresh-token-1-of-the-server") == "**** ****"
    if kept_in == "config.json":
        assert json.loads(file.read_text())["refresh_token"] == login.refresh
    else:
        assert file.read_text() == before
