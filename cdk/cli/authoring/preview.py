"""`spark-cdk preview STREAM`: shows the first records of a stream, with the requests and responses behind them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import click
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from cdk.authoring.exchanges import exchange_json, learn_secrets
from cdk.authoring.preview import PreviewPage, preview_pages
from cdk.base.secret_masking import Secrets
from cdk.base.values import FieldValue, Json, JsonValue, Record, to_json
from cdk.base.wording import counted
from cdk.cli.command_errors import messages_on_stderr
from cdk.cli.config_file import opened
from cdk.cli.options import (
    FindSource,
    config_option,
    json_option,
    number_option,
    state_option,
    with_egress,
    with_source,
)
from cdk.cli.output import print_json
from cdk.cli.printed_table import plain_table
from cdk.cli.protocol.state_file import load_state
from cdk.cli.simulation import with_simulation
from cdk.protocol.reports import Mask, error_text
from cdk.rest.tracing import PageNote
from cdk.state.manager import ConnectorStateManager
from cdk.streams.source import named_stream

_WIDEST, _GAP = 40, 1
"""Characters: the greatest width of a column in the table of records, and the gap between two columns."""


@click.command()
@with_source
@click.argument("stream")
@config_option
@state_option
@number_option("-n", "--records", "most", default=20, text="Records to show; with --step, of each page.")
@click.option("--step", is_flag=True, help="Show a page, and ask before the next one is requested.")
@number_option("--body", default=300, least=0, text="Characters of each body to show.")
@json_option
@with_simulation
@with_egress
def preview(
    find: FindSource,
    stream: str,
    *,
    config: Path | None,
    state: Path | None,
    most: int,
    step: bool,
    body: int,
    as_json: bool,
) -> int:
    """Show the first records of a STREAM, each request and response, and why there is a next page.

    Nothing is written, and no state is changed.
    """
    if step and as_json:
        raise click.UsageError("'--step' and '--json' exclude each other: pass one of them")
    secrets = Secrets()
    with messages_on_stderr(secrets):
        if as_json:
            answer = preview_json(find, stream, secrets, config=config, state=state, most=most, body=body)
            print_json(**answer)
            return 1 if any(page["error"] is not None for page in answer["pages"]) else 0
        with _pages(find, stream, secrets, config, state) as pages:
            return _print_preview(stream, pages, secrets, body=body, most=most, step=step)


def preview_json(
    find: FindSource,
    stream: str,
    secrets: Secrets,
    *,
    config: Path | None,
    most: int,
    body: int,
    state: Path | None = None,
    most_pages: int | None = None,
) -> Json:
    """The object that `--json` prints: up to `most` records, and up to `body` characters of each body.

    most_pages: how many pages are read at most, if filters leave few records of each. Raises ConfigError.
    """
    pages, records, complete = list[Mapping[str, JsonValue]](), list[Record](), True
    with _pages(find, stream, secrets, config, state) as read:
        for page in read:
            pages.append(_page_json(page, secrets, body))
            records += page.records
            if page.error is not None or len(records) >= most or len(pages) == most_pages:
                complete = False
                break
    return {
        "format": "spark-cdk-preview/1",
        "stream": stream,
        "complete": complete,
        "pages": pages,
        "records": [secrets.mask_json(record) for record in records[:most]],
    }


@contextmanager
def _pages(
    find: FindSource, stream: str, secrets: Secrets, config: Path | None, state: Path | None
) -> Iterator[Iterator[PreviewPage]]:
    """Open a stream and yield its pages; the secrets of each are in `secrets` when it is yielded."""
    source, settings = opened(find, config, secrets)
    streams = source.open(settings)
    chosen = named_stream(streams, stream)
    manager = ConnectorStateManager(load_state(state, {each.name for each in streams}))
    with closing(preview_pages(chosen, manager.restore(chosen))) as pages:
        yield _learning(pages, secrets)


def _learning(pages: Iterator[PreviewPage], secrets: Secrets) -> Iterator[PreviewPage]:
    for page in pages:
        learn_secrets((*page.planning, *page.exchanges), secrets)
        yield page


def _page_json(page: PreviewPage, secrets: Secrets, body: int) -> Mapping[str, JsonValue]:
    note, mask = page.note, secrets.mask
    return {
        "slice": mask(page.slice),
        "planning": [exchange_json(each, secrets, body) for each in page.planning],
        "requests": [exchange_json(each, secrets, body) for each in page.exchanges],
        "path": None if note is None or note.path is None else list(note.path),
        "extracted": None if note is None else note.extracted,
        "selected": None if note is None else note.selected,
        "records": len(page.records),
        "next": secrets.mask_json(page.next if note is None else note.following),
        "why": "" if note is None else mask(note.why),
        "warning": mask(page.warning),
        "error": None if page.error is None else mask(error_text(page.error)),
    }


def _print_preview(
    stream: str, pages: Iterator[PreviewPage], secrets: Secrets, *, body: int, most: int, step: bool
) -> int:
    """Print pages up to `most` records, or with `step` until the user declines; return 1 on an error."""
    records, code, complete = list[Record](), 0, True
    for number, page in enumerate(pages, 1):
        _print_page(f"{stream} {page.slice}, page {number}", page, secrets, body)
        records += page.records
        if page.error is not None:
            code, complete = 1, False
            break
        if step:
            _print_records(page.records[:most], secrets.mask)
        if not click.confirm("the next page?", default=True) if step else len(records) >= most:
            complete = False
            break
    shown = records if step else records[:most]
    if not step:
        _print_records(shown, secrets.mask)
    count, end = counted(len(shown), "record"), "the whole stream" if complete else "there may be more"
    click.echo(f"{stream}: {count}, {end}; nothing was written")
    return code


def _print_page(title: str, page: PreviewPage, secrets: Secrets, body: int) -> None:
    mask = secrets.mask
    click.secho(mask(title.replace(" whole stream", "")), bold=True)
    for purpose, exchanges in (("to find the slice:", page.planning), ("for the page:", page.exchanges)):
        if page.planning and exchanges:
            click.echo(f"  {purpose}")
        for exchange in exchanges:
            for line in _lines(exchange_json(exchange, secrets, body)):
                click.echo(f"  {line}")
    if page.error is not None:
        click.secho(f"  error: {mask(error_text(page.error))}", fg="red")
        return
    for line in (_counts(page), *_following(page)):
        click.echo(f"  {mask(line)}")


def _print_records(records: Sequence[Record], mask: Mask) -> None:
    """Print records as a table of the fields that fit the width; list the names of the others in a last line."""
    if not records:
        return
    console = Console(highlight=False)
    fields = list(dict.fromkeys(name for record in records for name in record))
    columns = [[_cell(mask, record[name]) if name in record else "" for record in records] for name in fields]
    shown, room, fitting = plain_table(), console.width, 0
    for name, cells in zip(fields, columns, strict=True):
        width = min(max([cell_len(name), *map(cell_len, cells)]), _WIDEST)
        room -= width + _GAP
        if room < 0 and fitting:
            break
        shown.add_column(Text(name), width=width, no_wrap=True, overflow="ellipsis")
        fitting += 1
    for row in zip(*columns[:fitting], strict=True):
        shown.add_row(*map(Text, row))
    console.print(shown)
    if rest := fields[fitting:]:
        console.print(Text(f"further fields: {', '.join(rest)}", "dim"), soft_wrap=True)


def _cell(mask: Mask, value: FieldValue) -> str:
    text = value if isinstance(value, str) else "" if value is None else to_json(value, str).decode()
    line = " ".join(mask(text).split())
    return line if cell_len(line) <= _WIDEST else f"{set_cell_size(line, _WIDEST - 1)}…"


def _lines(exchange: Mapping[str, JsonValue]) -> Iterator[str]:
    request, response = exchange["request"], exchange.get("response")
    assert isinstance(request, Mapping)
    yield f"{request['method']} {request['url']}"
    yield from _message(request)
    if "redirected_to" in exchange:
        yield f"redirected to {exchange['redirected_to']}"
    if not isinstance(response, Mapping):
        yield f"failed after {exchange['seconds']} s: {exchange['error']}"
        return
    size = "read as it arrives" if response["bytes"] is None else f"{response['bytes']:,} bytes"
    yield f"{response['status']} in {exchange['seconds']} s, {size}"
    yield from _message(response)


def _message(message: Mapping[str, JsonValue]) -> Iterator[str]:
    headers = message["headers"]
    assert isinstance(headers, Mapping)
    for name, value in headers.items():
        yield f"    {name}: {value}"
    if body := message["body"]:
        yield f"    {' '.join(str(body).split())}"


def _counts(page: PreviewPage) -> str:
    """The number of extracted records, and how many remain after filters and the slice's window, in words."""
    note, count = page.note, len(page.records)
    if note is None:
        return f"{count:,} records"
    where = "" if note.path is None else f" at {' > '.join(note.path) or 'the top of the body'}"
    filtered = "" if note.selected == note.extracted else f", {note.selected:,} after filters"
    owned = "" if count == note.selected else f", {count:,} of the slice"
    return f"{note.extracted:,} records{where}{filtered}{owned}"


def _following(page: PreviewPage) -> Iterator[str]:
    if page.warning:
        yield f"warning: {page.warning}"
    match page.note:
        case PageNote(following=None, why=why):
            yield f"no next page: {why}" if why else "no next page"
        case PageNote(following=following, why=why):
            yield f"next page: {to_json(following, str).decode()}{f', for {why}' if why else ''}"
        case None if page.next is not None:
            yield f"an interrupted read resumes at {to_json(page.next, str).decode()}"
        case None:
            pass
