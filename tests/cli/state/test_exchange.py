"""`spark-cdk state import` and `fork`, where a state may belong to several streams, or cannot be read."""

import json
from pathlib import Path
from textwrap import dedent

import pytest

from cdk.base.values import Json
from tests.cli.conftest import CommandLine
from tests.cli.shop_pipeline import put_shop

NAMESAKES = dedent("""
    from cdk import CountCursor, Source, Stream

    class Eu(Stream):
        name, namespace = "orders", "eu"
        cursor = CountCursor("seq")
        def read_records(self, slice):
            yield {"seq": 7}

    class Us(Eu):
        name, namespace = "orders", "us"

    class Shop(Source):
        stream_classes = [Eu, Us]
        config_schema = {"type": "object"}
""")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return put_shop(tmp_path, NAMESAKES, monkeypatch)


@pytest.fixture
def state(cli: CommandLine) -> CommandLine:
    return lambda verb, *argv: cli("state", verb, "pipeline.yaml", *argv)


def of(namespace: str | None, seq: int) -> Json:
    return {
        "type": "STREAM",
        "stream": {"stream_descriptor": {"name": "orders", "namespace": namespace}, "stream_state": {"seq": seq}},
    }


def states(state: CommandLine) -> Json:
    shown = json.loads("\n".join(state("show", "--json").lines))["streams"]
    return {stream["stream"]: stream["state"] for stream in shown}


def test_streams_of_the_same_name_get_the_states_of_their_namespaces(state: CommandLine, folder: Path) -> None:
    (folder / "states.json").write_text(json.dumps([of("eu", 7), of("us", 3)]))

    assert state("import", "states.json").code == 0
    assert states(state) == {"eu.orders": {"seq": 7}, "us.orders": {"seq": 3}}

    state("export", "backup.json", "--format", "exact")
    state("reset")
    assert state("import", "backup.json", "--replace", "--stream", "eu.orders").code == 0
    assert states(state) == {"eu.orders": {"seq": 7}, "us.orders": None}


@pytest.mark.parametrize(
    "document", [[of(None, 7)], [of("asia", 7)], {"orders": {"seq": 7}}, {"bookmarks": {"orders": {"seq": 7}}}]
)
def test_a_state_that_may_be_that_of_several_streams_is_refused(
    state: CommandLine, folder: Path, document: Json
) -> None:
    (folder / "states.json").write_text(json.dumps(document))

    ran = state("import", "states.json")

    assert ran.code == 1
    assert "expected one of the streams 'eu.orders', 'us.orders'; add the namespace" in ran.stderr
    assert not (folder / "tables").exists()


def test_a_namespace_that_the_source_lacks_does_not_matter_where_a_name_is_unique(
    state: CommandLine, folder: Path
) -> None:
    (folder / "shop.py").write_text(NAMESAKES.replace("[Eu, Us]", "[Eu]"))
    (folder / "states.json").write_text(json.dumps([of("public", 7)]))
    assert state("import", "states.json").code == 0
    assert states(state) == {"eu.orders": {"seq": 7}}

    (folder / "states.json").write_text(json.dumps([of("public", 7), of("eu", 3)]))
    ran = state("import", "states.json", "--replace")
    assert ran.code == 1
    assert "states.json: has several states of the stream 'eu.orders'; leave one of them out" in ran.stderr


def test_a_fork_does_not_leave_out_a_stream_whose_state_cannot_be_read(state: CommandLine, folder: Path) -> None:
    (folder / "states.json").write_text(json.dumps([of("eu", 7), of("us", 3)]))
    state("import", "states.json")
    (damaged,) = (folder / "tables" / "us" / "orders" / "_cdk_state" / "shop").iterdir()
    damaged.write_text("{")

    ran = state("fork", "second")

    assert ran.code == 1
    assert f"{damaged}: found" in ran.stderr
    assert not list(folder.glob("tables/*/orders/_cdk_state/second"))


def test_a_stream_is_chosen_among_those_of_its_name_by_its_namespace(state: CommandLine, folder: Path) -> None:
    (folder / "states.json").write_text(json.dumps([of("eu", 7), of("us", 3)]))
    state("import", "states.json")
    (folder / "new.json").write_text('{"seq": 1}')

    ran = state("set", "orders", "new.json")
    assert ran.code == 1
    assert (
        "found 2 streams: eu.orders, us.orders, expected one, because each has its own states; name its" in ran.stderr
    )
    assert state("set", "us.orders", "new.json").code == 0
    assert states(state) == {"eu.orders": {"seq": 7}, "us.orders": {"seq": 1}}
