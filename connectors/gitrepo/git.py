"""Reads a repository with `git`, and never writes to it."""

import os
import shutil
import subprocess
from collections.abc import Sequence

from cdk import ConfigError, FatalError

_HEX = frozenset("0123456789abcdef")
_BETWEEN = "\x1f"
_FIELDS = ("%H", "%P", "%an", "%ae", "%aI", "%cn", "%ce", "%cI", "%s", "%b")


class Git:
    """A repository in a folder. Its methods raise ConfigError: when there is no repository, or no Git."""

    def __init__(self, repository: str) -> None:
        self._repository = repository

    def refs(self) -> list[list[str]]:
        """Return the full name and the commit of each branch and each tag, ordered by name."""
        pattern = f"%(refname){_BETWEEN}%(objectname){_BETWEEN}%(*objectname)"
        lines = self._run("for-each-ref", f"--format={pattern}", "refs/heads", "refs/tags").splitlines()
        # An annotated tag is an object of its own; `*objectname` is what it points to.
        return [[name, peeled or own] for name, own, peeled in (line.split(_BETWEEN) for line in lines)]

    def known(self, commits: Sequence[str]) -> list[str]:
        """Return those of the commits that the repository still has: a forced push may have removed one."""
        if not commits:
            return []
        answers = self._run("cat-file", "--batch-check=%(objectname) %(objecttype)", stdin="\n".join(commits))
        return [line.split()[0] for line in answers.splitlines() if line.endswith(" commit")]

    def reachable(self, upto: Sequence[str], without: Sequence[str]) -> list[str]:
        """Return the commits reachable from `upto` but not from `without`, parents first, always in the same order."""
        revisions = "\n".join([*upto, *(f"^{commit}" for commit in without)])
        return self._run("rev-list", "--topo-order", "--reverse", "--stdin", stdin=revisions).split()

    def describe(self, commits: Sequence[str]) -> list[list[str]]:
        """Return the values of `_FIELDS` for the commits, in their order."""
        pattern = f"--format={_BETWEEN.join(_FIELDS)}"
        text = self._run("log", "-z", "--no-walk=unsorted", pattern, "--stdin", stdin="\n".join(commits))
        return [commit.split(_BETWEEN) for commit in text.split("\0") if commit]

    def _run(self, command: str, *arguments: str, stdin: str = "") -> str:
        git = shutil.which("git")
        if git is None:
            raise ConfigError("found no program `git`; install it where this connector runs")
        options = ("--no-optional-locks", "-c", "log.showSignature=false", "-C", self._repository, command, *arguments)
        result = subprocess.run(  # noqa: S603 - no shell, and of a state only names of commits
            [git, *options],
            input=stdin.encode(),
            env={**os.environ, "LC_ALL": "C.UTF-8", "LANGUAGE": ""},
            capture_output=True,
            check=False,
        )
        if result.returncode:
            why = result.stderr.decode(errors="replace").strip().partition("\n")[0]
            if "not a git repository" in why or "cannot change to" in why:
                raise ConfigError(f"repository: found no Git repository in {self._repository!r} ({why})")
            raise FatalError(f"git {command} failed in {self._repository!r}: {why}")
        return result.stdout.decode(errors="replace")


def is_commit(text: object) -> bool:
    """Whether a text is the full name of a commit, and so not an option for `git`."""
    return isinstance(text, str) and len(text) in {40, 64} and _HEX.issuperset(text)
