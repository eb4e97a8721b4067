"""The streams of a Git repository: refs, which are read in full, and commits, each of which is read once.

Time is not a cursor here: a branch that is merged today brings commits of last month. New commits are those reachable
from today's heads but not from the heads of the last read. So the state holds these heads and, during a read, also the
heads that it reads up to: the read ends with the history it started with, whatever is pushed meanwhile. The cursor
that rows and tables see is the number of the read that brought a commit.
"""

from collections.abc import Iterator

from cdk import BadState, Checkpoint, Item, JsonSchema, Record, Slice, Stream
from connectors.gitrepo.git import Git, is_commit


class Refs(Stream):
    """Branches and tags, and the commit that each of them points to."""

    name = "refs"
    primary_key = "name"
    schema: JsonSchema = {  # noqa: RUF012 - as an author writes it
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "In full, such as refs/heads/main"},
            "commit": {"type": "string"},
        },
    }

    def read_records(self, slice: Slice) -> Iterator[Item]:
        for name, commit in Git(self.config["repository"]).refs():
            yield {"name": name, "commit": commit}


class Commits(Stream):
    """Every commit reachable from a branch or a tag, parents before children."""

    name = "commits"
    primary_key = "commit"
    cursor_field = "read"
    supports_checkpointing = True
    schema: JsonSchema = {  # noqa: RUF012
        "type": "object",
        "properties": {
            "commit": {"type": "string"},
            "parents": {"type": "array", "items": {"type": "string"}},
            "author": {"type": "string"},
            "author_email": {"type": "string"},
            "authored_at": {"type": "string", "format": "date-time"},
            "committer": {"type": "string"},
            "committer_email": {"type": "string"},
            "committed_at": {"type": "string", "format": "date-time"},
            "subject": {"type": "string"},
            "body": {"type": "string"},
            "read": {"type": "integer", "description": "The number of the read that brought the commit"},
        },
    }

    def read_records(self, slice: Slice) -> Iterator[Item]:
        git, state = Git(self.config["repository"]), _checked(slice.start.cursor or {})
        known, number, skip = state.get("heads", []), state.get("read", 0), state.get("skip", 0)
        if not skip:
            # No read was interrupted: start a new one, up to the current heads.
            number += 1
        upto = state["upto"] if skip else sorted({commit for _, commit in git.refs()})
        if upto == known:
            return
        commits, size = git.reachable(upto, git.known(known)), self.config.get("page_size", 500)
        for first in range(skip, len(commits), size):
            page = commits[first : first + size]
            yield from (_commit(values, number) for values in git.describe(page))
            yield Checkpoint({"read": number, "heads": known, "upto": upto, "skip": first + len(page)})
        yield Checkpoint({"read": number, "heads": upto})


def _commit(values: list[str], number: int) -> Record:
    commit, parents, author, author_email, authored, committer, email, committed, subject, body = values
    return {
        "commit": commit,
        "parents": parents.split(),
        "author": author,
        "author_email": author_email,
        "authored_at": authored,
        "committer": committer,
        "committer_email": email,
        "committed_at": committed,
        "subject": subject,
        "body": body.strip("\n"),
        "read": number,
    }


def _checked(state: Record) -> Record:
    """Return the state, checked because its commits are passed to `git`.

    Raises BadState: when it holds anything else.
    """
    for name in ("heads", "upto"):
        commits = state.get(name, [])
        if not isinstance(commits, list) or not all(map(is_commit, commits)):
            raise BadState(f"state of commits: {name}", commits, "a list of commits, each 40 or 64 hexadecimal digits")
    return state
