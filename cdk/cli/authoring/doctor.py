"""`spark-cdk doctor [PIPELINE]`: whether a sync can run here."""

from collections.abc import Iterator
from pathlib import Path

import click

from cdk.authoring.doctor import Finding, machine_findings, pipeline_findings
from cdk.base.errors import CdkError
from cdk.base.secret_masking import Secrets
from cdk.base.values import to_json
from cdk.cli.command_errors import plain_errors
from cdk.cli.options import custom_code_option, json_option, with_egress
from cdk.cli.protocol.source_events import SyncEvents
from cdk.cli.stderr_log import warnings_on_stderr
from cdk.cli.sync.pipeline_from_file import config_file, file_pipeline

_MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "failed": ("✗", "red"), "skipped": ("-", None)}


@click.command()
@click.argument("pipeline", type=click.Path(path_type=Path, dir_okay=False), required=False)
@custom_code_option
@json_option
@with_egress
def doctor(pipeline: Path | None, *, allow_custom_code: bool, as_json: bool) -> int:
    """Try what a sync needs: versions, Java, disk, and of a PIPELINE its source, credentials, target and state.

    The exit code is 1 where something is missing. What is written to try a place is removed again.
    """
    secrets = Secrets()
    findings: list[Finding] = []
    with plain_errors(secrets), warnings_on_stderr(secrets):
        for finding in _findings(pipeline, secrets, trusted=allow_custom_code):
            masked = Finding(finding.name, finding.status, secrets.mask(finding.text), finding.fix)
            findings.append(masked)
            if not as_json:
                _print(masked)
    healthy = all(finding.status != "failed" for finding in findings)
    if as_json:
        listed = [finding.to_json() for finding in findings]
        answer = {"format": "spark-cdk-doctor/1", "healthy": healthy, "findings": listed}
        click.echo(to_json(answer, indent=True).decode())
    return 0 if healthy else 1


def _findings(path: Path | None, secrets: Secrets, *, trusted: bool) -> Iterator[Finding]:
    yield from machine_findings()
    if path is None:
        return
    try:
        # A login may bring a new refresh token: its file gets it.
        events = SyncEvents(secrets, config_file(path))
        settings, source = file_pipeline(path, secrets, trusted=trusted, events=events)
    except CdkError as error:
        yield Finding("pipeline", "failed", str(error), f"see `spark-cdk validate {path}`")
        return
    yield Finding("pipeline", "ok", f"{path}: {settings.name}")
    yield from pipeline_findings(settings, source)


def _print(finding: Finding) -> None:
    mark, colour = _MARKS[finding.status]
    click.echo(f"{click.style(mark, fg=colour)} {finding.name}: {finding.text}")
    if finding.fix:
        click.echo(f"  do this: {finding.fix}")
