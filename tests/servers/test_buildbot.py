"""A real Buildbot whose builds end in another order than they began: what is read equals what the server shows."""

from collections.abc import Iterable
from pathlib import Path

from cdk import Json, Record
from cdk.testing import ReadResult, read
from connectors.buildbot import buildbot
from tests.servers.buildbot import Buildbot, building

SOURCE = buildbot(page_size=2)


def by_key(records: Iterable[Record], key: str) -> dict[Json, Record]:
    """The last of the records of each key; a message has no nulls."""
    return {each[key]: {name: value for name, value in each.items() if value is not None} for each in records}


def read_all(server: Buildbot, *before: ReadResult) -> ReadResult:
    result = read(SOURCE, config={"url": server.url}, state=before[-1].state_messages if before else ())
    assert result.error is None, result.error
    builds = by_key(server.ended("builds"), "buildid")
    steps = by_key((step for build in builds for step in server.ended(f"builds/{build}/steps")), "stepid")
    reads = [*before, result]
    assert by_key((record for each in reads for record in each.records_of("builds")), "buildid") == builds
    assert by_key((record for each in reads for record in each.records_of("steps")), "stepid") == steps
    return result


def test_builds_and_their_steps_are_what_a_buildbot_shows_whichever_ends_first(tmp_path: Path) -> None:
    with building(tmp_path) as server:
        server.start_build("slow")
        server.wait_for(1, begun=True)  # which build has which number is a matter of when it begins
        for builder in ("kit", "kit", "docs"):
            server.start_build(builder)
        server.wait_for(3)
        first = read_all(server)
        server.release()
        server.start_build("kit")
        server.wait_for(5)
        again = read_all(server, first)

        assert sorted(each["name"] for each in first.records_of("builders")) == ["docs", "kit", "slow"]
        assert [each["name"] for each in first.records_of("workers")] == ["here"]
        # The build that began first ends behind those that were read before.
        assert sorted(by_key(first.records_of("builds"), "buildid")) == [2, 3, 4]
        assert {1, 5} <= by_key(again.records_of("builds"), "buildid").keys()
