"""The recipe for DuckDB reads tables whose folders have names that addresses escape."""

import re
from pathlib import Path

import pytest

from cdk import Source, Stream
from cdk.sync.loop.runner import SyncRunner
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, StreamOptions, TargetOptions

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "sync-into-delta.md"


class Books(Stream):
    name = "bücher 100% & mehr"
    schema = {"type": "object", "properties": {"stadt": {"type": "string"}, "größe": {"type": "integer"}}}  # noqa: RUF012 - as an author writes it

    def read_records(self, slice):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, ARG002 - as an author writes it
        yield from ({"stadt": stadt, "größe": n} for n, stadt in enumerate(["Köln", "Köln", "東京 #1", "a b%C3"]))


class Library(Source):
    stream_classes = [Books]  # noqa: RUF012 - as an author writes it


def test_names_of_folders_may_be_of_any_letters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    pipeline = Pipeline(
        name="books",
        source=SourceOptions(connector="library"),
        target=TargetOptions(path="täbles"),
        streams={Books.name: StreamOptions(partition_by="stadt")},
    )
    assert SyncRunner(pipeline, Library()).run().ok
    (recipe,) = (
        block for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if "duckdb" in block
    )

    recipe = recipe.replace("tables/orders", f"täbles/{Books.name}").replace("status", "stadt")
    exec(recipe.replace("count(*)", "sum(größe)"), {})  # noqa: S102 - of our own page

    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in capsys.readouterr().out.splitlines()]
    assert [row for row in rows if row and row[0] in {"Köln", "東京 #1", "a b%C3"}] == [
        ["Köln", "1"],
        ["a b%C3", "3"],
        ["東京 #1", "2"],
    ]
