"""StreamPlan: how one stream of a pipeline is read and written, decided before anything runs."""

import re
from collections.abc import Iterable, Mapping
from copy import copy
from datetime import timedelta

from msgspec import Struct

from cdk.base.errors import ConfigError
from cdk.base.values import JsonValue, Location
from cdk.base.wording import did_you_mean
from cdk.lake.admin.locate import StreamLocation
from cdk.lake.arrow.columns import column_name
from cdk.lake.arrow.schema_evolution import Policy
from cdk.lake.delta.write_modes import FULL_REFRESH_DEFAULT, INCREMENTAL_DEFAULT, Traits, WriteModeName, traits_of
from cdk.lake.storage.folder import Folder
from cdk.lake.storage.table_folders import HISTORY
from cdk.streams.stream import Stream, full_name
from cdk.sync.settings.pipeline_file import FollowSourceOptions, Pipeline, StreamOptions, SyncMode
from cdk.sync.settings.stream_options import RemoveStaleOptions

_STREAMS = Location(keys=("streams",))
_LONGEST_NAME = 255 - len(HISTORY)
"""Maximum bytes of a stream's name: file systems allow 255 for a folder, and that of a history has a suffix."""

_FORGET_AFTER = timedelta(days=30)


class StreamPlan(Struct, frozen=True):
    """A stream, its table's folder, and how it is read and written."""

    stream: Stream
    root: Folder
    sync_mode: SyncMode
    write_mode: WriteModeName
    policy: Policy = Policy.EVOLVE
    hard_deletes: bool = False
    """Whether, with one row per key, a row that is marked as deleted removes its key from the table."""
    history: Folder | None = None
    """The folder of the history table with all rows; None without history."""
    partition_by: tuple[str, ...] = ()
    """The fields whose columns partition the table."""
    follow_source: FollowSourceOptions | None = None
    """How to ask the source whether it has changed; the stream is then picklable."""
    generation: int | None = None
    """The generation number that a platform assigns to this read."""
    replaces: bool = False
    """Whether rows of earlier generations are to be removed."""
    allow_empty: bool = False
    """Whether an overwrite may leave the table without rows."""
    remove_stale: RemoveStaleOptions | None = None
    """What to do with rows that a complete read did not see; None keeps them."""
    forget_after: timedelta | None = None
    """How long a partition may be missing before the state forgets its position; None for ever."""
    trace_rows: bool = False
    """Whether each row records the request that brought it."""
    window: Mapping[str, JsonValue] | None = None
    """The window that the stream is read for (`cdk.sync.tables.skip_windows`); None without windows."""

    @property
    def name(self) -> str:
        """The stream's name for people and pipelines, including its namespace, if it has one."""
        return full_name(self.stream)

    @property
    def where(self) -> Location:
        """The place of the stream's options in a pipeline file."""
        return Location(keys=("streams", self.name))

    @property
    def traits(self) -> Traits:
        """The traits of the write mode."""
        return traits_of(self.write_mode)

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The columns of the primary key."""
        return tuple(column_name(path[0]) or path[0] for path in self.stream.key_paths)

    @property
    def location(self) -> StreamLocation:
        """The location of the stream's table, which may not exist yet."""
        return StreamLocation(self.stream.name, self.root, self.stream.namespace, self.history)


def chosen_streams(
    streams: Iterable[Stream], chosen: Mapping[str, StreamOptions] | None
) -> list[tuple[Stream, StreamOptions]]:
    """Return the streams that a pipeline selects, by default all, with their options, in the source's order.

    A namespace may be omitted if only one stream has the name.
    Raises ConfigError: when two streams have the same name, or a selected name matches no stream or several.
    """
    known: dict[str, Stream] = {}
    for stream in streams:
        if (name := full_name(stream)) in known:
            raise ConfigError(f"the source has two streams called {name!r}; names must differ", path=_STREAMS)
        known[name] = stream
    options: dict[str, StreamOptions] = {} if chosen is not None else dict.fromkeys(known, StreamOptions())
    for name, stream_options in (chosen or {}).items():
        meant = [name] if name in known else [full for full, stream in known.items() if stream.name == name]
        if not meant:
            where = Location(keys=("streams", name))
            raise ConfigError(f"the source has no stream {name!r}{did_you_mean(name, known)}", path=where)
        if len(meant) > 1:
            where = Location(keys=("streams", name))
            why = f"found {name!r}, which is {' and '.join(map(repr, meant))}; name one of them"
            raise ConfigError(why, path=where)
        options[meant[0]] = stream_options
    return [(stream, options[name]) for name, stream in known.items() if name in options]


def plan_streams(streams: Iterable[Stream], pipeline: Pipeline, target: Folder) -> list[StreamPlan]:
    """Return the plans of the streams that a pipeline selects. Raises ConfigError: as the two functions that it uses.

    streams: all of the pipeline's source. target: the folder of the tables.
    """
    by_default = pipeline.incremental_write_mode
    chosen = chosen_streams(streams, pipeline.streams)
    return [plan_stream(stream, options, target, by_default) for stream, options in chosen]


def plan_stream(
    stream: Stream, options: StreamOptions, target: Folder, incremental: WriteModeName = INCREMENTAL_DEFAULT
) -> StreamPlan:
    """Plan a stream by the pipeline's options. Raises ConfigError: when they do not fit the stream or each other.

    incremental: the pipeline's default write mode of incremental streams; those without a key append.
    """
    stream = _with_options(stream, options)
    sync_mode: SyncMode = options.sync_mode or ("incremental" if stream.incremental else "full_refresh")
    incremental = incremental if stream.primary_key else INCREMENTAL_DEFAULT
    write_mode = options.write_mode or (incremental if sync_mode == "incremental" else FULL_REFRESH_DEFAULT)
    traits = traits_of(write_mode)
    where = Location(keys=("streams", full_name(stream)))
    if sync_mode == "incremental" and not stream.incremental:
        raise ConfigError("the stream has no cursor; use full_refresh", path=where.below("sync_mode"))
    if sync_mode == "incremental" and traits.hidden_until_complete:
        why = "an incremental sync adds to its table; use append or append_dedup"
        raise ConfigError(why, path=where.below("write_mode"))
    if traits.one_row_per_key and not stream.primary_key:
        raise ConfigError(
            f"{write_mode} keeps one row per primary key, but the stream has none; name its "
            f"columns in {where}.primary_key, or use append",
            path=where.below("write_mode"),
        )
    for name, enabled in (("deletes", options.deletes == "hard"), ("history", options.history)):
        if enabled and not traits.merges:
            raise ConfigError("only tables with one row per key can have it; use append_dedup", path=where.below(name))
    _check_replaces(options, sync_mode, write_mode, where)
    stream = _as_read(stream, options, sync_mode, traits, where)
    names = [stream.namespace, stream.name] if stream.namespace else [stream.name]
    for name in names:
        _check_name(name, where)
    history = target.join(*names[:-1], names[-1] + HISTORY) if options.history else None
    return StreamPlan(
        stream,
        target.join(*names),
        sync_mode,
        write_mode,
        Policy(options.schema_policy),
        options.deletes == "hard",
        history,
        (options.partition_by,) if isinstance(options.partition_by, str) else options.partition_by or (),
        options.follow_source,
        options.generation_id,
        bool(options.minimum_generation_id),
        options.remove_stale is not None and options.remove_stale.allow_empty,
        options.remove_stale,
        _forget_after(options, sync_mode, traits, where),
        options.trace_rows,
    )


def _as_read(stream: Stream, options: StreamOptions, sync_mode: SyncMode, traits: Traits, where: Location) -> Stream:
    """Return the stream as this sync reads it. Raises ConfigError: when its source cannot be followed."""
    if options.follow_source is None:
        # If the source refuses a saved page token, the slice is read again, which must not duplicate rows.
        return stream if traits.repeats_rows else stream.resuming_pages()
    if sync_mode == "incremental":
        why = "an incremental sync requests only what is new, by its cursor; use full_refresh"
        raise ConfigError(why, path=where.below("follow_source"))
    try:
        return stream.conditional()
    except ConfigError as error:
        raise ConfigError(error.message, path=where.below("follow_source")) from None


def _forget_after(options: StreamOptions, sync_mode: SyncMode, traits: Traits, where: Location) -> timedelta | None:
    """Return how long a partition may be missing before the state forgets its position; None for ever.

    A partition that returns later is read from its start. By default, partitions are only forgotten if their rows then
    replace themselves: a history would get them again, and with hard deletes a deleted key's older row might return.
    """
    after = options.forget_partitions_after
    if sync_mode == "full_refresh":
        if after is not None:
            why = "the state of a full refresh has no partitions to forget; leave it out"
            raise ConfigError(why, path=where.below("forget_partitions_after"))
        return None
    if after is None:
        replaces = traits.merges and not options.history and options.deletes == "soft"
        return _FORGET_AFTER if replaces else None
    return None if after == "never" else after


# Control characters are impossible in paths of Delta, lone surrogates in all paths.
_NO_FOLDER = re.compile(r"[/\\\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def _check_name(name: str, where: Location) -> None:
    """Raise ConfigError if a folder of this name cannot hold a table."""
    # Every reader of Delta takes a folder that contains one named `_delta_log` for a table.
    meant = name.strip() in {"", ".", "..", "_delta_log"} or name.startswith("_cdk")
    if meant or _NO_FOLDER.search(name):
        problem = f"called {name!r}"
    elif (size := len(name.encode())) > _LONGEST_NAME:
        problem = f"whose name has {size} bytes, expected at most {_LONGEST_NAME}"
    else:
        return
    why = f"a table cannot lie in a folder {problem}; rename the stream, or leave it out of `streams`"
    raise ConfigError(why, path=where)


def _check_replaces(options: StreamOptions, sync_mode: SyncMode, write_mode: WriteModeName, where: Location) -> None:
    """Raise ConfigError if rows of earlier generations are to be removed, but would stay."""
    if not options.minimum_generation_id or sync_mode == "incremental":
        return
    traits = traits_of(write_mode)
    if traits.repeats_rows or (traits.merges and options.remove_stale is None):
        other = FULL_REFRESH_DEFAULT if traits.repeats_rows else f"{where}.remove_stale with removal: hard"
        why = f"rows of earlier generations should be removed, but {write_mode} keeps them; use {other}"
        raise ConfigError(why, path=where.below("minimum_generation_id"))


def check_apart(plans: list[StreamPlan]) -> None:
    """Raise ConfigError if a table is inside another's folder or in the same: one would delete the other's files."""
    roots = [folder for plan in plans for folder in (plan.root, plan.history) if folder is not None]
    for n, root in enumerate(roots):
        if any(root.inside(other) for other in roots):
            why = f"the table {root} would lie inside another stream's; leave one of them out"
            raise ConfigError(why, path=_STREAMS)
        if root in roots[:n]:
            raise ConfigError(f"two tables would lie at {root}; rename a stream, or keep no history", path=_STREAMS)


def _with_options(stream: Stream, options: StreamOptions) -> Stream:
    """Return the stream with the pipeline's cursor field and key instead of its own."""
    if options.primary_key is None and options.cursor_field is None:
        return stream
    stream = copy(stream)
    if options.primary_key is not None:
        stream.primary_key = options.primary_key
    if options.cursor_field is not None:
        if stream.cursor is None:
            where = Location(keys=("streams", full_name(stream), "cursor_field"))
            raise ConfigError("the stream has no cursor whose field could be set", path=where)
        stream.cursor = copy(stream.cursor)
        stream.cursor.field = stream.cursor_field = options.cursor_field
    return stream
