"""Doctor: checks, one after the other, what a sync needs of the machine and of the places in its pipeline file.

Files and states that are written to test a place are removed again.
"""

import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal, TypeAlias
from uuid import uuid4

from msgspec import Struct

from cdk.base.errors import CdkError, ConfigError, ReadError, TransientError
from cdk.base.process.connector_line import error_with_line, names_line
from cdk.base.process.request_lease import RequestLease, RequestsSpent, leasing
from cdk.base.run import one_run
from cdk.base.times.clock import Clock, system_clock
from cdk.base.values import JsonValue
from cdk.base.wording import counted
from cdk.lake.arrow.columns import columns
from cdk.lake.storage.folder import Folder
from cdk.lake.storage.object_store import folder_at
from cdk.lake.storage.token_files import TokenFiles
from cdk.rest.auth.tokens import run_tokens
from cdk.rest.http.messages import Response
from cdk.rest.http.origin import origin
from cdk.rest.tracing import Exchange, tracing
from cdk.spark.cluster.java_home import java_home
from cdk.spark.cluster.spark_versions import VERSIONS, installed_version, version_of
from cdk.state.stores.opening import open_store
from cdk.state.stores.protocol import StateKey
from cdk.streams.source import Source
from cdk.sync.settings.pipeline_file import Pipeline, TargetOptions
from cdk.sync.settings.stream_plan import check_apart, plan_streams
from cdk.sync.tables.table_fit import check_new_table

Status: TypeAlias = Literal["ok", "warning", "failed", "skipped"]

_GB = 1_000_000_000
_LITTLE, _TOO_LITTLE = 5 * _GB, 0.5 * _GB
_SKEW = timedelta(minutes=1)
_CODE = "correct the connector's code; the config is not at fault"
_KEY = StateKey("probe", "spark-cdk-doctor")


class Finding(Struct, frozen=True):
    """The result of one check. fix: what to do if the status is not ok."""

    name: str
    status: Status
    text: str
    fix: str = ""


def free_bytes(path: Path) -> int:
    """Return the free bytes on the disk of a path, which need not exist yet."""
    return shutil.disk_usage(next(folder for folder in (path, *path.parents) if folder.exists())).free


def machine_findings(
    *, java: Callable[[], object] = lambda: java_home(os.environ), free: Callable[[Path], int] = free_bytes
) -> Iterator[Finding]:
    """Check the machine: versions, a Java for Spark, disk space for temporary files."""
    names = ("spark-cdk", "pyspark", "deltalake", "pyarrow")
    yield Finding("versions", "ok", ", ".join([f"Python {platform.python_version()}", *map(_versioned, names)]))
    yield from _spark_findings(java)
    yield disk_finding("disk", Path(tempfile.gettempdir()), free)


def pipeline_findings(
    settings: Pipeline, source: Source, *, clock: Clock = system_clock, free: Callable[[Path], int] = free_bytes
) -> Iterator[Finding]:
    """Check whether the API, the clock, the streams, the target and the state store of a pipeline can be used.

    source: the pipeline's, whose config is prepared.
    """
    of_source = list(source_findings(source, settings.config, settings.target, clock=clock))
    yield from of_source
    if all(finding.status != "failed" for finding in of_source):
        yield _streams_finding(settings, source)
    yield _target_finding(settings)
    with suppress(ConfigError):  # the finding of the target says so
        if (path := folder_at(settings.target.path, settings.target.storage).on_disk) is not None:
            yield disk_finding("disk of the target", path, free)
    yield _state_finding(settings)


def source_findings(
    source: Source, config: Mapping[str, JsonValue], target: TargetOptions | None = None, *, clock: Clock = system_clock
) -> Iterator[Finding]:
    """Check an API: that it responds and accepts the credentials, and that its clock agrees with this machine's.

    config: prepared. target: where new refresh tokens are stored, as in a sync.
    """
    exchanges, error = _checked(source, config, target)
    yield from _source_findings(exchanges, error)
    yield _clock_finding(exchanges, clock())


def disk_finding(name: str, path: Path, free: Callable[[Path], int]) -> Finding:
    """Check the free disk space at a path."""
    room = free(path)
    text = f"{room / _GB:.1f} GB free at {path}"
    fix = "free some space, or choose another disk (TMPDIR, target.path)"
    if room >= _LITTLE:
        return Finding(name, "ok", text)
    return Finding(name, "failed" if room < _TOO_LITTLE else "warning", text, fix)


def _versioned(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return f"no {package}"


def _spark_findings(java: Callable[[], object]) -> Iterator[Finding]:
    known = ", ".join(f"{major}.{minor}" for major, minor in VERSIONS)
    try:
        spark = installed_version()
    except ConfigError as error:
        yield Finding("Spark", "warning", error.message, f"install one of pyspark {known}")
        return
    if version_of(spark) in VERSIONS:
        yield Finding("Spark", "ok", f"pyspark {spark}")
    else:
        yield Finding("Spark", "warning", f"pyspark {spark} is not tested with the kit", f"install one of {known}")
    try:
        yield Finding("Java", "ok", f"{java()}")
    except ConfigError as error:
        yield Finding("Java", "failed", error.message, "pip install 'spark-cdk[java]', or set JAVA_HOME")


def _checked(
    source: Source, config: Mapping[str, JsonValue], target: TargetOptions | None
) -> tuple[list[Exchange], Exception | None]:
    """Check a source; return its exchanges and the error. Refresh tokens are those of the target, as in a sync."""
    with one_run(), tracing() as trace:
        try:
            tokens = run_tokens()
            if target is not None:
                tokens.store = TokenFiles(folder_at(target.path, target.storage))
            try:
                source.check(config)
            finally:
                tokens.flush()
        except Exception as error:  # noqa: BLE001 - a connector's own code
            return trace.exchanges, error
        return trace.exchanges, None


def _source_findings(exchanges: Sequence[Exchange], error: Exception | None) -> Iterator[Finding]:
    hosts = list(dict.fromkeys(str(origin(each.request.url)) for each in exchanges))
    answered = [each for each in exchanges if isinstance(each.outcome, Response)]
    network = "check the address, the name server, the firewall and the proxy (HTTPS_PROXY, NO_PROXY)"
    if not hosts:
        yield Finding("network", "skipped", "the check of the source sent no request")
    elif answered:
        yield Finding("network", "ok", f"{', '.join(hosts)} answered")
    else:
        yield Finding("network", "failed", f"no response from {', '.join(hosts)}", network)
    match error:
        case None:
            yield Finding("source", "ok", "its check succeeded")
        case ReadError() if hosts and not answered:
            yield Finding("source", "skipped", "credentials cannot be tried without a response")
        case TransientError():
            yield Finding("source", "failed", str(error), "try again later: another config would not help")
        case CdkError() | OSError() if not names_line(str(error)):
            yield Finding("source", "failed", str(error), "correct the config, or renew the credentials")
        case CdkError():
            yield Finding("source", "failed", str(error), _CODE)
        case _:
            yield Finding("source", "failed", error_with_line(error), _CODE)


def _clock_finding(exchanges: Sequence[Exchange], now: datetime) -> Finding:
    """Compare the clock with the date of the last response, since waits may have followed earlier ones."""
    for each in reversed(exchanges):
        if isinstance(each.outcome, Response) and (text := each.outcome.headers.get("date")):
            try:
                skew = abs(parsedate_to_datetime(text) - now)
            except (TypeError, ValueError):
                continue
            seconds = f"{skew.total_seconds():.0f} s apart from the clock of {origin(each.request.url)}"
            if skew <= _SKEW:
                return Finding("clock", "ok", seconds)
            words = "synchronize it with a time server: tokens and cursors depend on it"
            return Finding("clock", "warning", seconds, words)
    return Finding("clock", "skipped", "no response says its time")


def _streams_finding(settings: Pipeline, source: Source) -> Finding:
    # Without requests: they might spend a refresh token that works once.
    try:
        with leasing(RequestLease(0)):
            target = folder_at(settings.target.path, settings.target.storage)
            plans = plan_streams(source.streams(settings.config), settings, target)
            check_apart(plans)
            for plan in plans:
                with suppress(RequestsSpent):  # a schema from the API
                    check_new_table(plan, columns(plan.stream.json_schema()))
    except RequestsSpent:
        return Finding("streams", "skipped", "the source knows its streams only from its API")
    except CdkError as error:
        fix = "correct `streams` of the pipeline; `spark-cdk validate` names all mistakes in it"
        return Finding("streams", "failed", str(error), fix)
    return Finding("streams", "ok", f"{counted(len(plans), 'stream')}, whose options fit")


def _target_finding(settings: Pipeline) -> Finding:
    path = settings.target.path
    fix = "correct target.path or target.storage, or your permissions there"
    try:
        folder = folder_at(path, settings.target.storage)
        with folder.explaining():
            _probe(folder)
    except (CdkError, OSError) as error:
        return Finding("target", "failed", f"{path}: {error}", fix)
    return Finding("target", "ok", f"{path}: a file was written, read and removed")


def _probe(folder: Folder) -> None:
    """Write, read and remove a file. Raises OSError: when the content differs."""
    root = folder.on_disk
    missing = [] if root is None else [path for path in (root, *root.parents) if not path.exists()]
    name, content = f"_cdk_probe_{uuid4().hex}", uuid4().bytes
    try:
        folder.write(name, content)
        if folder.read(name) != content:
            raise OSError("the content read differs from what was written")
    finally:
        folder.delete(name)
        for path in missing:
            path.rmdir()


def _state_finding(settings: Pipeline) -> Finding:
    provider = settings.state.state_provider
    if provider is None or not settings.state.enabled:
        return Finding("state", "ok", "stored in the tables")
    try:
        store = open_store(provider.model_dump())
        try:
            store.create(_KEY, 1, b"probe")
            if store.read(_KEY, 1) != b"probe":
                return Finding("state", "failed", "the content read differs from what was written", "use another store")
        finally:
            store.drop(_KEY, [1], [])
            store.close()
    except (CdkError, OSError) as error:
        return Finding("state", "failed", str(error), "correct state.state_provider, or start the store")
    return Finding("state", "ok", f"a record was written to the store {provider.type!r}, read and removed")
