"""`spark-cdk prove`: kills syncs of a connector, resumes them, and compares the results with an undisturbed sync."""

import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from html import escape
from pathlib import Path

import click

from cdk.base.secret_masking import Secrets
from cdk.base.values import as_object
from cdk.base.wording import counted
from cdk.cli.command_errors import plain_errors
from cdk.cli.config_file import config_name, read_config
from cdk.cli.options import FindSource, config_option, file_option, json_option, number_option, with_egress, with_source
from cdk.cli.output import print_json
from cdk.cli.simulation import is_simulated, with_simulation
from cdk.rest.http.own_connections import noticing
from cdk.rest.pagination.last_page import checking_pages_after_end
from cdk.sources.config import prepared_config
from cdk.streams.source import named_stream
from cdk.testing.cassettes import Cassette, record
from cdk.testing.proving.proof import Kill, Proof
from cdk.testing.proving.proof import prove as prove_subject
from cdk.testing.proving.trials import Subject

_SHOWN = 5
"""How many kills with problems are shown in full."""

_LABEL = "crash-proof"
_GREEN, _AMBER, _RED = "#2e7d32", "#b26a00", "#c62828"
_LETTER, _PADDING = 6.6, 10
"""Pixels: the width of a letter of the badge, and the space on each side of a text."""


@click.command()
@with_source
@config_option
@file_option(
    "--cassette", "A recording of the source's responses. Default: it is read, and recorded for this proof only."
)
@click.option("--stream", "names", multiple=True, metavar="NAME", help="Prove only this stream; may be repeated.")
@number_option("--at-commits", least=0, text="Kill at N points around commits, evenly. Default: see --at-random.")
@number_option("--at-random", least=0, text="Kill at N random moments. Default: 40 and 10, or what a minute allows.")
@click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="Seed of the random moments.")
@json_option
@file_option("--badge", "Write an SVG badge with the result.")
@with_simulation
@with_egress
def prove(
    find: FindSource,
    *,
    config: Path | None,
    cassette: Path | None,
    names: tuple[str, ...],
    at_commits: int | None,
    at_random: int | None,
    seed: int,
    as_json: bool,
    badge: Path | None,
) -> int:
    """Kill syncs of a connector, resume each, and compare with an undisturbed one.

    They are killed around commits and at random. Syncs run in processes of their own, without Spark, into folders that
    are removed. The exit code is 1 if a row is lost or duplicated, a receipt does not add up, a sync fails, or no row
    is read.
    """
    secrets = Secrets()
    with plain_errors(secrets):
        if cassette is None:
            click.echo("reading the source once, and from some of its states", err=True)
        subject = subject_of(find, config, cassette, names, secrets)
        click.echo("syncing it, and killing syncs", err=True)
        with click.progressbar(length=1, file=sys.stderr, hidden=not sys.stderr.isatty()) as bar:

            def watch(kills: int) -> None:
                bar.length = kills
                bar.update(1)

            proof = prove_subject(subject, at_commits=at_commits, at_random=at_random, seed=seed, watch=watch)
    if is_simulated():
        proof = replace(
            proof, notes=[*proof.notes, "all records were generated (--simulate); no request was sent to the API"]
        )
    if badge is not None:
        badge.write_text(_badge(proof, "generated rows" if is_simulated() else "rows"))
    if as_json:
        print_json(**as_object(secrets.mask_json(proof_json(proof))))
    else:
        click.echo(secrets.mask("\n".join(_lines(proof))))
    return 0 if proof.proven else 1


def subject_of(
    find: FindSource, config: Path | None, cassette: Path | None, names: Sequence[str], secrets: Secrets
) -> Subject:
    """Return the subject of a proof. cassette: None: read the source and record it. names: of streams; empty for all.

    Raises ConfigError, and the errors of reading the source.
    """
    source = find()
    played = None if cassette is None else Cassette(cassette)
    settings = played.config if played is not None and config is None else read_config(config, secrets)
    prepared = prepared_config(settings, source, config_name(config), secrets)
    if played is not None:
        with played.playing():
            streams = source.open(prepared)
        for name in names:
            named_stream(streams, name)
        return Subject(find, settings, played, names)
    with checking_pages_after_end(), noticing() as beside:
        recording = record(source, settings, streams=names)
    notes = []
    if beside or not recording.interactions:
        missing = "not every request" if recording.interactions else "no request"
        how = f", by connections to {', '.join(beside.values())}" if beside else ""
        notes = [f"{missing} went through the kit, so each of these syncs reads the source itself{how}"]
    return Subject(find, settings, Cassette(recording, alone=False), names, notes)


def proof_json(proof: Proof) -> Mapping[str, object]:
    """The object that `--json` prints."""
    return {"format": "spark-cdk-prove/1", "proven": proof.proven, **asdict(proof)}


def _badge(proof: Proof, counted: str) -> str:
    """The badge of a proof: `crash-proof | 46 kills, 120 rows`, or `crash-proof | broken by 3 of 46 kills`.

    counted: the noun for the rows. The badge is amber if warnings say that all syncs may lack the same rows.
    """
    kills, broken, rows = len(proof.kills), sum(bool(kill.problems) for kill in proof.kills), sum(proof.rows.values())
    text, color = f"{kills} kills, {rows:,} {counted}", _GREEN
    if not proof.proven:
        text, color = f"broken by {broken} of {kills} kills" if broken else "broken" if rows else "no rows", _RED
    elif proof.warnings:
        text, color = f"{text}, with warnings", _AMBER
    label_width, text_width = (round(len(part) * _LETTER + 2 * _PADDING) for part in (_LABEL, text))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{label_width + text_width}" height="20" role="img" '
        f'aria-label="{_LABEL}: {escape(text)}"><title>{_LABEL}: {escape(text)}</title>'
        f'<rect width="{label_width + text_width}" height="20" rx="3" fill="{color}"/>'
        f'<path d="M3 0h{label_width - 3}v20H3a3 3 0 0 1-3-3V3a3 3 0 0 1 3-3z" fill="#555"/>'
        '<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">'
        f'<text x="{label_width / 2}" y="14">{_LABEL}</text>'
        f'<text x="{label_width + text_width / 2}" y="14">{escape(text)}</text></g></svg>\n'
    )


def _lines(proof: Proof) -> list[str]:
    """The lines of the report: a table of the kills, the problems and warnings, and the result."""
    by_point: dict[str, list[Kill]] = defaultdict(list)
    for kill in proof.kills:
        by_point[kill.point.partition(":")[0]].append(kill)
    lines = (
        [f"{'killed at':<20}{'kills':>6}{'rows lost':>11}{'twice':>7}{'receipts':>10}{'broken':>8}"] if by_point else []
    )
    for point, kills in by_point.items():
        figures = (sum(kill.lost for kill in kills), sum(kill.duplicated for kill in kills))
        receipts, broken = sum(kill.receipts for kill in kills), sum(bool(kill.problems) for kill in kills)
        lines.append(f"{point:<20}{len(kills):>6}{figures[0]:>11,}{figures[1]:>7,}{receipts:>10,}{broken:>8}")
    lines += [*proof.problems, *(f"warning: {text}" for text in dict.fromkeys(proof.warnings))]
    lines += [f"note: {text}" for text in proof.notes]
    broken_kills = [kill for kill in proof.kills if kill.problems]
    for kill in broken_kills[:_SHOWN]:
        lines += [f"{kill.point}: {problem}" for problem in kill.problems]
    if len(broken_kills) > _SHOWN:
        lines.append(f"and {len(broken_kills) - _SHOWN} more kills")
    rows = ", ".join(f"{name} {count:,}" for name, count in proof.rows.items())
    result = "NOT PROVEN"
    if proof.proven:
        end = (
            "as in a sync that was not killed" if proof.kills else "when resumed after each commit; no sync was killed"
        )
        result = f"nothing lost, nothing duplicated, every receipt adds up, {end}"
        lines.append("not shown: that the sync which was not killed reads every record of the source")
    if proof.warnings:
        result += "; see the warnings above: all of these syncs may lack the same rows"
    commits = counted(proof.commits, "commit")
    return [*lines, f"{len(proof.kills)} kills, {commits}, rows: {rows}: {result}"]
