"""`spark-cdk preview STREAM`: shows the first records of a stream, with the requests and responses behind them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import click
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cdk.authoring.exchanges import exchange_json, learn_secrets
from cdk.authoring.preview import PreviewPage, preview_pages
from cdk.base.secret_masking import Secrets
from cdk.base.values import FieldValue, Json, JsonValue, Record, to_json
from cdk.base.wording import counted
from cdk.cli.command_errors import plain_errors, retries_on_stderr, warnings_on_stderr
from cdk.cli.config_file import load_config
from cdk.cli.options import (
    FindSource,
    config_option,
    json_option,
    number_option,
    state_option,
    with_egress,
    with_source,
)
from cdk.cli.protocol.state_file import load_state
from cdk.cli.simulation import with_simulation
from cdk.protocol.reports import Mask, error_text
from cdk.rest.tracing import PageNote
from cdk.sources.config_file import ConfigEvents
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
@with_simulation()
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
    with plain_errors(secrets), warnings_on_stderr(secrets), retries_on_stderr(secrets):
        if as_json:
            answer = preview_json(find, stream, secrets, config=config, state=state, most=most, body=body)
            click.echo(to_json(answer, str, indent=True).decode())
            return 1 if any(page["error"] is not None for page in answer["pages"]) else 0
        with _pages(find, stream, secrets, config, state) as pages:
            return _show(stream, pages, _Text(secrets, body, most, step=step), None if step else most)


def preview_json(
    find: FindSource,
    stream: str,
    secrets: Secrets,
    *,
    config: Path | None = None,
    state: Path | None = None,
    most: int = 20,
    body: int = 300,
    most_pages: int | None = None,
) -> Json:
    """The object that `--json` prints: up to `most` records, and up to `body` characters of each body.

    most_pages: how many pages are read at most, if filters leave few records of each. Raises ConfigError.
    """
    shown = _Answer(secrets, body)
    with _pages(find, stream, secrets, config, state) as pages:
        _show(stream, pages, shown, most, most_pages)
    return shown.answer


@contextmanager
def _pages(
    find: FindSource, stream: str, secrets: Secrets, config: Path | None, state: Path | None
) -> Iterator[Iterator[PreviewPage]]:
    """Open a stream and yield its pages; the secrets of each are in `secrets` when it is yielded."""
    source = find()
    source.events = ConfigEvents(secrets, config)
    streams = source.open(load_config(config, source, secrets))
    chosen = named_stream(streams, stream)
    manager = ConnectorStateManager(load_state(state, {each.name for each in streams}))
    with closing(preview_pages(chosen, manager.restore(chosen))) as pages:
        yield _learning(pages, secrets)


def _learning(pages: Iterator[PreviewPage], secrets: Secrets) -> Iterator[PreviewPage]:
    for page in pages:
        learn_secrets((*page.planning, *page.exchanges), secrets)
        yield page


def _show(
    stream: str, pages: Iterator[PreviewPage], shown: "_Answer | _Text", most: int | None, most_pages: int | None = None
) -> int:
    """Show pages up to `most` records or `most_pages`, until the user declines, or to the end; return 1 on an error."""
    records: list[Record] = []
    for number, page in enumerate(pages, 1):
        records += map(dict, page.records)
        shown.page(stream, page)
        if page.error is not None:
            shown.end(stream, records[:most], complete=False)
            return 1
        if (most is not None and len(records) >= most) or number == most_pages or not shown.goes_on():
            shown.end(stream, records[:most], complete=False)
            return 0
    shown.end(stream, records, complete=True)
    return 0


class _Answer:
    """Collects pages into one JSON document, `answer`, which is complete at the end."""

    def __init__(self, secrets: Secrets, body: int) -> None:
        self._secrets, self._body = secrets, body
        self.answer: Json = {}
        self._pages: list[Mapping[str, JsonValue]] = []

    def page(self, _: str, page: PreviewPage) -> None:
        note = page.note
        self._pages.append(
            {
                "slice": self._secrets.mask(page.slice),
                "planning": [exchange_json(each, self._secrets, self._body) for each in page.planning],
                "requests": [exchange_json(each, self._secrets, self._body) for each in page.exchanges],
                "path": None if note is None or note.path is None else list(note.path),
                "extracted": None if note is None else note.extracted,
                "selected": None if note is None else note.selected,
                "records": len(page.records),
                "next": self._secrets.mask_json(page.next if note is None else note.following),
                "why": "" if note is None else self._secrets.mask(note.why),
                "warning": self._secrets.mask(page.warning),
                "error": None if page.error is None else self._secrets.mask(error_text(page.error)),
            }
        )

    def goes_on(self) -> bool:
        return True

    def end(self, stream: str, records: Sequence[Record], *, complete: bool) -> None:
        self.answer = {
            "format": "spark-cdk-preview/1",
            "stream": stream,
            "complete": complete,
            "pages": self._pages,
            "records": [self._secrets.mask_json(record) for record in records],
        }


class _Text:
    """Prints each page, and the records as a table: at the end, or with `step` per page. most: records of a table."""

    def __init__(self, secrets: Secrets, body: int, most: int, *, step: bool) -> None:
        self._secrets, self._body, self._most, self._step = secrets, body, most, step
        self._number = 0

    def page(self, stream: str, page: PreviewPage) -> None:
        mask = self._secrets.mask
        self._number += 1
        click.secho(mask(f"{stream} {page.slice}, page {self._number}".replace(" whole stream", "")), bold=True)
        for title, exchanges in (("to find the slice:", page.planning), ("for the page:", page.exchanges)):
            if page.planning and exchanges:
                click.echo(f"  {title}")
            for exchange in exchanges:
                for line in _lines(exchange_json(exchange, self._secrets, self._body)):
                    click.echo(f"  {line}")
        if page.error is not None:
            click.secho(f"  error: {mask(error_text(page.error))}", fg="red")
            return
        click.echo(f"  {mask(_counts(page))}")
        for line in _following(page):
            click.echo(f"  {mask(line)}")
        if self._step:
            _print_records([dict(record) for record in page.records[: self._most]], mask)

    def goes_on(self) -> bool:
        return not self._step or click.confirm("the next page?", default=True)

    def end(self, stream: str, records: Sequence[Record], *, complete: bool) -> None:
        if not self._step:
            _print_records(records, self._secrets.mask)
        count = counted(len(records), "record")
        click.echo(f"{stream}: {count}, {'the whole stream' if complete else 'there may be more'}; nothing was written")


def _print_records(records: Sequence[Record], mask: Mask) -> None:
    """Print records as a table of the fields that fit the width; list the names of the others in a last line."""
    if not records:
        return
    console = Console(highlight=False)
    fields = list(dict.fromkeys(name for record in records for name in record))
    columns = [[_cell(mask, record[name]) if name in record else "" for record in records] for name in fields]
    shown = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, _GAP, 0, 0))
    room, fitting = console.width, 0
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
