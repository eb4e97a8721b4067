"""States that are exported and imported: whatever a stream is and wherever its read ended, no row is lost by that."""

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from cdk import Item, Json, ServerError, Slice, Stream
from cdk.base.task_map import run_inline
from cdk.base.values import canonical
from cdk.lake.admin.formats import message
from cdk.lake.admin.state_admin import Admin
from cdk.lake.storage.folder import LocalFolder
from cdk.spark.sync_runner import SyncRunner
from cdk.sync.reports.stream_report import Status, StreamReport
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, StreamOptions, TargetOptions
from cdk.sync.settings.stream_plan import plan_stream
from cdk.sync.tables.table_writer import import_into_table
from cdk.sync.tasks.workers import Workers
from tests.samples import Comments, Events, Notes, Orders, Plain, Replies, ShopOrders, Users, Versions, told
from tests.spark.given_source import Given
from tests.worlds.table import rows

KINDS: list[type[Stream]] = [Plain, Users, Notes, Comments, Orders, ShopOrders, Events, Versions, Replies]
KEYS: dict[str, list[str]] = {
    "Notes": ["id"],
    "Plain": ["id"],
    "Comments": ["user", "id"],
    "ShopOrders": ["shop", "id"],
    "Events": ["id"],
    "Versions": ["version"],
    "Replies": ["order", "id"],
}
"""The primary keys of those that have none, or one that is not unique in all partitions."""


class Table:
    """The table of one stream, which a pipeline fills. ends_after: items that the source gives, then it fails."""

    def __init__(self, folder: Path, kind: type[Stream], options: StreamOptions) -> None:
        self.folder, self.options = folder, options
        self.ends_after: int | None = None
        table = self

        class Cut(kind):  # type: ignore[misc,valid-type] # a class of any kind
            name = kind().name

            def items(self, slice: Slice) -> Iterator[Item]:
                for item in super().items(slice):
                    if table.ends_after == 0:
                        raise ServerError("the source is down")
                    if table.ends_after is not None:
                        table.ends_after -= 1
                    yield item

        self.stream: Stream = Cut()
        keys = KEYS.get(kind.__name__, ["id"])
        types = {name: {"type": "string" if name == "shop" else "integer"} for name in keys}
        self.stream.primary_key, self.stream.schema = keys, {"type": "object", "properties": types}
        self.plan = plan_stream(self.stream, options, LocalFolder(folder))

    def sync(self, ends_after: int | None = None) -> StreamReport:
        self.ends_after = ends_after
        pipeline = Pipeline(
            name="shop",
            source=SourceOptions(connector="given"),
            target=TargetOptions(path=str(self.folder)),
            streams={self.stream.name: self.options},
            checkpoint_interval=timedelta(0),
        )
        return SyncRunner(pipeline, Given([self.stream]), workers=Workers(run_inline, 1)).run().streams[0]

    @property
    def rows(self) -> Counter[str]:
        return Counter(canonical(told(row, self.stream)) for row in rows(self.folder / self.stream.name))

    @property
    def admin(self) -> Admin:
        return Admin(LocalFolder(self.folder), "shop")

    def exported(self, *, exact: bool) -> Json:
        """The stream's state as its message has it; None: there is none."""
        saved = self.admin.status(self.plan.location).saved
        return None if saved is None else cast("Json", message(self.plan.location, saved, exact=exact))


def expected(kind: type[Stream]) -> set[str]:
    """The rows that a table has after one read."""
    with TemporaryDirectory() as folder:
        table = Table(Path(folder), kind, StreamOptions(sync_mode="full_refresh", write_mode="overwrite"))
        assert table.sync().status is Status.DONE
        return set(table.rows)


EVERYTHING = {kind: expected(kind) for kind in KINDS}
OPTIONS = [
    StreamOptions(sync_mode=sync, write_mode=write, remove_stale=removal)
    for sync, write, removal in [
        ("full_refresh", "overwrite", None),
        ("full_refresh", "overwrite", {"allow_empty": True}),
        ("full_refresh", "append", None),
        ("full_refresh", "append_dedup", None),
        ("full_refresh", "append_dedup", {"removal": "hard", "fail_safe_threshold": 100, "allow_empty": True}),
        ("incremental", "append", None),
        ("incremental", "append_dedup", None),
    ]
]
CUT = st.sampled_from([None, None, 1, 2, 3, 5, 9])
"""Items after which a sync ends with an error; None: it is complete."""


@given(
    kind=st.sampled_from(KINDS),
    options=st.sampled_from(OPTIONS),
    cut=CUT,
    meanwhile=st.sampled_from(["nothing", "a reset", "a sync", "a sync", "another folder"]),
    later=CUT,
    exact=st.booleans(),
)
@example(kind=Users, options=OPTIONS[2], cut=None, meanwhile="nothing", later=None, exact=True)
@example(kind=Users, options=OPTIONS[0], cut=2, meanwhile="a sync", later=1, exact=True)
@settings(max_examples=30, deadline=None)
def test_no_row_is_lost_after_an_import(  # noqa: PLR0917 - all that a world is made of
    kind: type[Stream],
    options: StreamOptions,
    cut: int | None,
    meanwhile: str,
    later: int | None,
    exact: bool,  # noqa: FBT001
) -> None:
    assume(options.sync_mode == "full_refresh" or kind().incremental)
    with TemporaryDirectory() as folder:
        table = Table(Path(folder) / "tables", kind, options)
        complete = table.sync(cut).status is Status.DONE
        exported, before = table.exported(exact=exact), table.rows
        assume(exported is not None)
        if meanwhile == "a reset":
            table.admin.reset(table.plan.location)
        elif meanwhile == "a sync":
            table.sync(later)
        elif meanwhile == "another folder":
            table = Table(Path(folder) / "others", kind, options)

        import_into_table(table.admin, table.plan, exported["stream"]["stream_state"], replaces=True)
        reports = [table.sync()]
        while reports[-1].status is not Status.DONE:
            reports.append(table.sync())
            assert len(reports) < 3

        everything, found = EVERYTHING[kind], table.rows
        if complete and options.sync_mode == "full_refresh":
            assert reports[-1].read - reports[-1].skipped == len(everything)
        in_whole = options.write_mode == "overwrite" or meanwhile != "another folder"
        assert set(found) | (set() if in_whole else set(before)) == everything
        if options.write_mode != "append":
            assert set(found.values()) <= {1}
