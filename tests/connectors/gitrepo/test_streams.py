"""A real repository: Git writes it, the connector reads it."""

import os
import subprocess
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

import pytest
from msgspec import convert

from cdk import BadState, ConfigError, Json
from cdk.protocol.messages import AirbyteStateMessage
from cdk.sources.discovery import find_source
from cdk.testing import Cassette, ConnectorSuite, at, read, state
from cdk.testing.cassettes.interactions import Recording
from cdk.testing.proving.proof import prove
from cdk.testing.proving.trials import Subject
from connectors.gitrepo import GitRepo


class Repository:
    """A repository that tests write to. Commits are a second apart."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._seconds = folder, 1_700_000_000
        self.git("init", "--quiet", "--initial-branch=main", str(folder))

    def git(self, *arguments: str) -> str:
        self._seconds += 1
        who = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER") for what, value in self._who().items()}
        environment = {**os.environ, **who, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
        command = ["git", "-C", str(self.folder), *arguments]
        return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.strip()

    def _who(self) -> Mapping[str, str]:
        return {"NAME": "Ünï\tCode", "EMAIL": "uni@example.com", "DATE": f"{self._seconds} +0200"}

    def commit(self, message: str) -> str:
        self.git("commit", "--quiet", "--allow-empty", "--message", message)
        return self.git("rev-parse", "HEAD")

    @property
    def config(self) -> dict[str, Json]:
        return {"repository": str(self.folder), "page_size": 2}


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    repository = Repository(tmp_path)
    for number in range(3):
        repository.commit(f"number {number}")
    return repository


def test_commits_come_with_all_that_is_known_of_them(repository: Repository) -> None:
    repository.git("tag", "--annotate", "v1", "--message", "first")
    last = repository.commit('subject "quoted"\n\nbody\nof two lines')

    commits = read(GitRepo, "commits", config=repository.config).records

    assert [commit["subject"] for commit in commits][:3] == ["number 0", "number 1", "number 2"]
    assert commits[-1] == {
        "commit": last,
        "parents": [commits[2]["commit"]],
        "author": "Ünï\tCode",
        "author_email": "uni@example.com",
        "authored_at": commits[-1]["committed_at"],
        "committer": "Ünï\tCode",
        "committer_email": "uni@example.com",
        "committed_at": commits[-1]["authored_at"],
        "subject": 'subject "quoted"',
        "body": "body\nof two lines",
        "read": 1,
    }
    refs = read(GitRepo, "refs", config=repository.config).records
    assert refs == [
        {"name": "refs/heads/main", "commit": last},
        {"name": "refs/tags/v1", "commit": commits[2]["commit"]},
    ]


def test_a_further_read_brings_old_commits_that_are_merged_today(repository: Repository) -> None:
    repository.git("checkout", "--quiet", "-b", "side", "HEAD~2")
    old = repository.commit("written before")
    repository.git("checkout", "--quiet", "--detach", "main")
    repository.git("branch", "--quiet", "-D", "side")
    first = read(GitRepo, "commits", config=repository.config)

    repository.git("checkout", "--quiet", "main")
    repository.git("merge", "--quiet", "--no-ff", "--message", "merged", old)
    second = read(GitRepo, "commits", config=repository.config, state=first.state_messages)
    third = read(GitRepo, "commits", config=repository.config, state=second.state_messages)

    assert [commit["subject"] for commit in second.records] == ["written before", "merged"]
    assert {commit["read"] for commit in second.records} == {2}
    assert third.records == []


def test_an_interrupted_read_ends_in_the_history_that_it_began_with(repository: Repository) -> None:
    whole = read(GitRepo, "commits", config=repository.config, every_state=True)
    (first, *_) = (message["state"] for message in whole.messages if message["type"] == "STATE")

    repository.commit("pushed meanwhile")
    rest = read(GitRepo, "commits", config=repository.config, state=[convert(first, AirbyteStateMessage)])
    further = read(GitRepo, "commits", config=repository.config, state=rest.state_messages)

    assert [commit["subject"] for commit in rest.records] == ["number 2"]
    assert [commit["subject"] for commit in further.records] == ["pushed meanwhile"]


def test_a_commit_that_a_forced_push_removed_is_no_error(repository: Repository) -> None:
    first = read(GitRepo, "commits", config=repository.config)

    repository.git("reset", "--quiet", "--hard", "HEAD~1")
    repository.git("reflog", "expire", "--expire=now", "--all")
    repository.git("gc", "--quiet", "--prune=now")
    other = repository.commit("in its place")
    second = read(GitRepo, "commits", config=repository.config, state=first.state_messages)

    assert second.error is None
    assert second.records[-1]["commit"] == other


def test_no_repository_is_an_error_that_names_the_property(tmp_path: Path) -> None:
    error = read(GitRepo, "refs", config={"repository": str(tmp_path / "nowhere")}).error

    assert isinstance(error, ConfigError)
    assert "repository: found no Git repository" in error.message


@pytest.mark.parametrize("heads", [["--upload-pack=touch /tmp/x"], "main", [1]])
def test_a_state_cannot_pass_options_to_git(repository: Repository, heads: Json) -> None:
    error = read(GitRepo, "commits", config=repository.config, state=state(commits=at(read=1, heads=heads))).error

    assert isinstance(error, BadState)


class TestGitRepo(ConnectorSuite):
    """What every connector must do."""

    source = GitRepo
    config: ClassVar[Mapping[str, Json]] = {}

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _repository(cls) -> Iterator[None]:
        with TemporaryDirectory() as folder:
            repository = Repository(Path(folder))
            for number in range(5):
                repository.commit(f"number {number}")
            cls.config = repository.config
            yield


def test_syncs_that_are_killed_lose_and_repeat_nothing(repository: Repository) -> None:
    nothing = Cassette(Recording([]))

    proof = prove(Subject(partial(find_source, "gitrepo"), repository.config, nothing), at_commits=1, at_random=0)

    assert proof.proven, [*proof.problems, *(kill.problems for kill in proof.kills)]
    assert proof.rows == {"refs": 1, "commits": 3}
