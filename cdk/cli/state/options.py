"""What the verbs of `spark-cdk state` share: the pipeline file, options, and the output of edits."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cached_property, wraps
from pathlib import Path
from typing import ParamSpec

import click
import pyarrow as pa
from deltalake.exceptions import DeltaError

from cdk.base.errors import ConfigError, StateError
from cdk.base.secret_masking import Secrets, secret_values
from cdk.base.wording import counted, first_few
from cdk.cli.command_errors import plain_errors
from cdk.cli.options import FILE
from cdk.cli.pipeline_from_file import file_pipeline
from cdk.lake.admin.locate import StreamLocation, choose_locations, locations_in
from cdk.lake.admin.state_admin import Admin, EditResult
from cdk.lake.storage.credentials import secrets_of
from cdk.lake.storage.folder import Folder, in_one_line
from cdk.lake.storage.object_store import folder_at
from cdk.lake.storage.run_lock import between_runs
from cdk.lake.storage.table_folders import tables_of_others
from cdk.lake.storage.table_log import UnreadableTable
from cdk.sources.environment import PartialEnvironment, environment
from cdk.streams.stream import Stream
from cdk.sync.settings.pipeline_file import Pipeline
from cdk.sync.settings.stream_plan import StreamPlan, plan_streams
from cdk.sync.tables.state_log_mirror import state_check

P = ParamSpec("P")

_MOVES = 10


class PipelineFile:
    """A pipeline file, loaded as far as a verb needs it: the connector is loaded only if its streams are needed."""

    def __init__(self, path: Path, *, trusted: bool = False) -> None:
        self.path, self.trusted, self.secrets = path, trusted, Secrets()
        self._config_secrets: list[str] = []
        self._is_locked = False

    @cached_property
    def settings(self) -> Pipeline:
        """The settings in the file, in which variables that are not set stay as they are written."""
        pipeline = Pipeline.load(self.path, lambda *folders: PartialEnvironment(environment(*folders)))
        if "${" in pipeline.target.path or any("${" in str(value) for value in pipeline.target.storage.values()):
            Pipeline.load(self.path)  # raises an error with the name and the line of the variable
        self.secrets.add(*secrets_of(pipeline.target.storage))
        return pipeline

    @property
    def name(self) -> str:
        return self.settings.name

    @cached_property
    def target(self) -> Folder:
        return folder_at(self.settings.target.path, self.settings.target.storage)

    def admin(self, *, dry: bool = False) -> Admin:
        """Return the object that reads and edits states. dry: it changes nothing."""
        return Admin(self.target, self.name, dry=dry, check=state_check(self.settings, self._config_secrets))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep syncs of the pipeline out, also across nested blocks. Raises StateConflict: when a sync is running."""
        if self._is_locked:
            yield
            return
        with between_runs(self.target, self.name):
            self._is_locked = True
            try:
                yield
            finally:
                self._is_locked = False

    def tables(self, names: Sequence[str] = ()) -> list[StreamLocation]:
        """The tables of the streams in `names`, or of all if it is empty.

        In an object store, the connector's streams determine the tables, since they cannot be listed. So they do for
        copied tables, which no marker of the pipeline identifies.
        """
        local = self.target.on_disk is not None
        locations = locations_in(self.target, self.name) if local else []
        known = {name: location.root for location in locations for name in (location.stream, location.name)}
        if not local or not known.keys() >= set(names):
            planned = (plan.location for plan in self.plans)
            locations += [at for at in planned if not local or (at.exists and at.root not in known.values())]
        return choose_locations(locations, names)

    def tables_with_state(self, names: Sequence[str]) -> list[StreamLocation]:
        """The tables of the streams in `names`, or of all that have a state, be it one that cannot be read."""
        tables, admin = self.tables(names), self.admin()
        return tables if names else [table for table in tables if admin.status(table).has_state]

    def tables_of_others(self, *, alone: bool) -> Iterator[str]:
        """Yield a line about the tables of the target that only other pipelines have written; nothing for a store.

        alone: this pipeline has no table there, so it may be one of the others under a new name.
        """
        if (root := self.target.on_disk) is None or not root.is_dir():
            return
        if tables := tables_of_others(root, self.name):
            others = ", ".join(map(repr, sorted({name for names in tables.values() for name in names})))
            line = f"{counted(len(tables), 'table')} of the target belong{'s' * (len(tables) == 1)} only to {others}"
            yield line + (
                f"; if that was the pipeline's name before, restore it, run `spark-cdk state fork FILE {self.name}`, "
                "and rename it"
                if alone
                else ""
            )

    def table(self, names: Sequence[str]) -> StreamLocation:
        """The only table of the streams in `names`, or of all. Raises ConfigError: there are several, or none."""
        tables = self.tables(names)
        if len(tables) != 1:
            if not tables:
                raise ConfigError("there is no stream with a state", path=str(self.path))
            listed = f"{counted(len(tables), 'stream')}: {', '.join(table.name for table in tables)}"
            choose = "name its namespace, too" if names else "choose one with --stream"
            raise ConfigError(f"found {listed}, expected one, because each has its own states; {choose}")
        return tables[0]

    @cached_property
    def plans(self) -> Sequence[StreamPlan]:
        """The connector's streams with the pipeline's options for each. Requires a complete config."""
        settings, source = file_pipeline(self.path, self.secrets, trusted=self.trusted)
        self._config_secrets += secret_values(source.config_schema, settings.config)
        return plan_streams(source.streams(settings.config), settings, self.target)

    def stream(self, table: StreamLocation) -> Stream:
        """The stream of a table. Raises ConfigError: the pipeline no longer has it."""
        for plan in self.plans:
            if (plan.stream.name, plan.stream.namespace) == (table.stream, table.namespace):
                return plan.stream
        raise ConfigError(
            f"the pipeline has no stream {table.name!r} any more, so its state cannot be interpreted; choose the "
            "others with --stream"
        )


pipeline_argument = click.argument(
    "pipeline",
    type=FILE,
    callback=lambda ctx, _, path: PipelineFile(path, trusted=bool(ctx.params.pop("trusted", False))),
)
for_streams = click.option(
    "--stream", "names", multiple=True, metavar="NAME", help="Only this stream; may be repeated. Default: all."
)
dry_option = click.option("--dry-run", "dry", is_flag=True, help="Show what would be done, and change nothing.")
trust_option = click.option(
    "--allow-custom-code",
    "trusted",
    is_flag=True,
    is_eager=True,
    help="Allow Python code that a manifest names, such as a components.py beside it, to run.",
)


def translate_errors(command: Callable[P, int]) -> Callable[P, int]:
    """Decorate a verb to end with a message if it fails, secrets masked. Its argument `pipeline` is a PipelineFile."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> int:
        pipeline = kwargs["pipeline"]
        assert isinstance(pipeline, PipelineFile)
        with plain_errors(pipeline.secrets):
            try:
                return command(*args, **kwargs)
            except BrokenPipeError:
                raise
            except (DeltaError, pa.ArrowException, OSError) as error:
                text = f"a table or file cannot be read: {in_one_line(str(error))}"
                raise click.ClickException(pipeline.secrets.mask(text)) from None

    return run


def editing(command: Callable[P, int]) -> Callable[P, int]:
    """Decorate a verb that changes states: as `translate_errors`, and no sync runs meanwhile, except in a dry run.

    The lock comes first: while the first sync of a pipeline runs, its tables do not exist yet.
    """

    @translate_errors
    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> int:
        pipeline = kwargs["pipeline"]
        assert isinstance(pipeline, PipelineFile)
        folder = pipeline.target.on_disk
        # A lock in a folder that does not exist would create it.
        if kwargs["dry"] or (folder is not None and not folder.is_dir()):
            return command(*args, **kwargs)
        with pipeline.locked():
            return command(*args, **kwargs)

    return run


class BrokenTables:
    """The tables that a verb leaves out because their log or a state of theirs cannot be read."""

    def __init__(self) -> None:
        self.errors: dict[str, str] = {}

    @contextmanager
    def noting(self, table: StreamLocation) -> Iterator[None]:
        """Note an error of a table instead of raising it, so that the verb continues with the others."""
        try:
            yield
        except StateError as error:
            self.errors[table.name] = str(error)

    def show(self, *, err: bool = False) -> int:
        """Print the errors, with `err` to standard error, and return the exit code."""
        for name, error in self.errors.items():
            click.echo(f"{name}: broken: {error}", err=err)
        return self.code

    @property
    def code(self) -> int:
        """The exit code of the verb."""
        return 1 if self.errors else 0


def edit_tables(
    pipeline: PipelineFile,
    tables: Sequence[StreamLocation],
    edit: Callable[[Admin, StreamLocation], EditResult],
    *,
    dry: bool,
) -> int:
    """Edit each table and print the results. If one edit would be refused, none is made: all are tried dry first.

    Tables that cannot be opened are left out, unless there are no others.
    """
    if not tables:
        raise ConfigError("there is no stream with a state", path=str(pipeline.path))
    admin, trial, broken = pipeline.admin(dry=dry), pipeline.admin(dry=True), BrokenTables()
    with nullcontext() if dry else pipeline.locked():
        results = {}
        for table in tables:
            try:
                results[table] = edit(trial, table)
            except UnreadableTable as error:
                if len(tables) == 1:
                    raise
                broken.errors[table.name] = str(error)
        for result in results.values() if dry else (edit(admin, table) for table in results):
            _print_edit(result, dry=dry)
    return broken.show()


def _print_edit(result: EditResult, *, dry: bool) -> None:
    change = result.change
    if dry:
        how = "would be done"
    elif result.version is None:
        how = "nothing to do"
    else:
        how = f"done, version {result.version} of the table"
    click.echo(f"{result.stream}: {change.what}: {how}")
    for line in (*first_few(change.moves, _MOVES), *change.consequences):
        click.echo(f"  {line}")
