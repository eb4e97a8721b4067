"""`spark-cdk doctor [PIPELINE]` checks whether a sync can run here; `spark-cdk check PIPELINE` is a part of that."""

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import click
from msgspec.structs import asdict, replace

from cdk.authoring.doctor import Finding, machine_findings, pipeline_findings, source_findings
from cdk.base.errors import CdkError
from cdk.base.secret_masking import Secrets
from cdk.cli.command_errors import messages_on_stderr
from cdk.cli.config_file import opened
from cdk.cli.options import (
    FindSource,
    config_option,
    connector_option,
    custom_code_option,
    given_source,
    json_option,
    manifest_option,
    pipeline_path,
    with_egress,
)
from cdk.cli.output import print_json
from cdk.cli.pipeline_from_file import config_file, file_pipeline
from cdk.sources.config_file import ConfigEvents

_MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "failed": ("✗", "red"), "skipped": ("-", None)}


@click.command()
@pipeline_path(required=False)
@connector_option
@manifest_option
@custom_code_option
@config_option
@json_option
@with_egress
def doctor(
    pipeline: Path | None,
    *,
    connector: str | None,
    manifest_path: Path | None,
    allow_custom_code: bool,
    config: Path | None,
    as_json: bool,
) -> int:
    """Check what a sync needs: versions, Java, disk space, and a PIPELINE's source, credentials, target and state.

    For a connector without a pipeline, its source and credentials are checked. The exit code is 1 if something is
    missing. Files written by the check are removed again.
    """
    find, secrets = given_source(connector, manifest_path, trusted=allow_custom_code), Secrets()
    if pipeline is not None and (find is not None or config is not None):
        raise click.UsageError("a PIPELINE names its connector and its config: set these in it, or pass no PIPELINE")
    rest: Iterable[Finding] = ()
    if pipeline is not None:
        rest = _of_pipeline(pipeline, secrets, trusted=allow_custom_code)
    elif find is not None:
        rest = _of_source(find, config, secrets)
    return _report(chain(machine_findings(), rest), secrets, as_json=as_json)


@click.command("check")
@pipeline_path()
@custom_code_option
@with_egress
def check_pipeline(pipeline: Path, *, allow_custom_code: bool) -> int:
    """Check whether the source, the streams, the target and the state store of a PIPELINE can be used."""
    secrets = Secrets()
    return _report(_of_pipeline(pipeline, secrets, trusted=allow_custom_code), secrets)


def _report(findings: Iterable[Finding], secrets: Secrets, *, as_json: bool = False) -> int:
    """Print findings one by one, or all as JSON, secrets masked; return 1 if one of them failed."""
    masked: list[Finding] = []
    with messages_on_stderr(secrets):
        for finding in findings:
            masked.append(replace(finding, text=secrets.mask(finding.text)))
            if not as_json:
                _print(masked[-1])
    healthy = all(finding.status != "failed" for finding in masked)
    if as_json:
        listed = [asdict(finding) for finding in masked]
        print_json(format="spark-cdk-doctor/1", healthy=healthy, findings=listed)
    return 0 if healthy else 1


def _of_pipeline(path: Path, secrets: Secrets, *, trusted: bool) -> Iterator[Finding]:
    try:
        # A login may return a new refresh token, which is saved in the config file.
        events = ConfigEvents(secrets, config_file(path))
        settings, source = file_pipeline(path, secrets, trusted=trusted, events=events)
    except CdkError as error:
        text = f"correct it; `spark-cdk validate {path}` reports what else is wrong"
        yield Finding("pipeline", "failed", str(error), text)
        return
    yield Finding("pipeline", "ok", f"{path}: {settings.name}")
    yield from pipeline_findings(settings, source)


def _of_source(find: FindSource, path: Path | None, secrets: Secrets) -> Iterator[Finding]:
    try:
        source, config = opened(find, path, secrets)
    except CdkError as error:
        yield Finding("connector", "failed", str(error), "correct the connector or its --config")
        return
    yield Finding("connector", "ok", source.name or type(source).__name__)
    yield from source_findings(source, config)


def _print(finding: Finding) -> None:
    mark, colour = _MARKS[finding.status]
    click.echo(f"{click.style(mark, fg=colour)} {finding.name}: {finding.text}")
    if finding.fix:
        click.echo(f"  do this: {finding.fix}")
