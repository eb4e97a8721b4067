"""`spark-cdk record`: records a connector's real requests and responses in a file, from which they can be replayed."""

from pathlib import Path

import click

from cdk.base.errors import FatalError
from cdk.base.secret_masking import Secrets
from cdk.cli.command_errors import plain_errors
from cdk.cli.config_file import config_name, read_config
from cdk.cli.options import FindSource, config_option, file_option, number_option, with_egress, with_source
from cdk.cli.simulation import with_simulation
from cdk.rest.http.own_connections import noticing
from cdk.sources.config import prepared_config
from cdk.testing.cassettes import Cassette
from cdk.testing.cassettes.drift import drift
from cdk.testing.cassettes.interactions import save
from cdk.testing.cassettes.recording import RESUMES, without_resumes
from cdk.testing.cassettes.recording import record as record_source

_DRIFTED = 1


@click.command()
@with_source
@config_option
@file_option("--cassette", "The cassette, a YAML file.", required=True)
@click.option("--stream", "names", multiple=True, metavar="NAME", help="Record only this stream; may be repeated.")
@number_option(
    "--resumes",
    default=RESUMES,
    least=0,
    text="Read each stream again from N of its states, so that interrupted reads can be replayed, too.",
)
@number_option("--sample", least=2, text="Retain N records of each page, where no page depends on the others.")
@click.option("--drift", "compare", is_flag=True, help="Compare the source with the cassette; write nothing.")
@with_simulation
@with_egress
def record(
    find: FindSource,
    *,
    config: Path | None,
    cassette: Path,
    names: tuple[str, ...],
    resumes: int,
    sample: int | None,
    compare: bool,
) -> int:
    """Read a connector once, and record its requests and responses in a cassette, without secrets.

    With `--drift` the exit code is 1 if fields, types, statuses or pages differ from the recording. It reads once, and
    compares what a read of these streams requests; for a sampled cassette, a sample of it.
    """
    secrets = Secrets()
    with plain_errors(secrets):
        source, settings = find(), read_config(config, secrets)
        prepared_config(settings, source, config_name(config), secrets)
        before = None
        if compare:
            recorded = Cassette(cassette).recording
            resumes, sample = 0, recorded.sample or sample
            before = without_resumes(recorded, source, settings, streams=names, sample=sample)
        with noticing() as beside:
            recording = record_source(source, settings, streams=names, resumes=resumes, sample=sample)
        connections = secrets.mask(", ".join(beside.values()))
        if not recording.interactions:
            raise FatalError(
                f"found no request by the kit{' but connections to ' if beside else ''}{connections}, expected some, "
                "for nothing else is recorded; send requests with `HttpStream` or `HttpClient` of `cdk.rest`"
            )
        if before is None:
            save(cassette, recording)
    if beside:
        text = f"connections to {connections} are not the kit's: they are not recorded, and refused in replays"
        click.echo(f"warning: {text}", err=True)
    if before is None:
        size = sum(len(each.content) for each in recording.interactions)
        click.echo(f"{cassette}: {len(recording.interactions)} responses of {size:,} bytes")
        return 0
    lines = drift(before, recording)
    click.echo("\n".join(lines) or f"{cassette}: as recorded")
    return _DRIFTED if lines else 0
