"""Line formats: text, JSON values, or rows of CSV. Lines are read one at a time as they arrive, by C code."""

import codecs
import csv
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

import orjson

from cdk.base.errors import ConfigError, DecodeError
from cdk.base.logs import logger
from cdk.base.records.exact_json import exact_json
from cdk.base.values import JsonValue
from cdk.rest.errors.failed_body import other_format
from cdk.rest.http.messages import Response
from cdk.rest.records.decoder import StreamedItems, lenient_json

MAX_LINE = 64 * 2**20
"""The maximum length of a line in bytes or characters; a longer body presumably has no line ends."""

_FEW_LINES = 2
"""A table with so few lines, its names and one row, does not show whether it omits trailing values."""
_BUFFER = 2**18
_LOGGED = 10
_NO_JSON = (
    "; expected a JSON value on each line. An error page or a truncated body looks like this. If the source has such "
    "lines anyway, a lenient decoder skips them: `Jsonl(lenient=True)`, or `lenient: true` in a manifest"
)
_BEGINNING = 2**18
"""Characters that are examined to decide whether a body is a table."""
_BLANK = " \t\r\n\0\ufeff"
_BRACKETED = re.compile(r"\s*<[^<>]*>\s*")
_LONGEST_LITERAL = len("-Infinity")
_CSV = "CSV"
_DELIMITERS = ",;\t|"
_PACKED = {
    b"\x1f\x8b": "gzip, expected text; `GzipFile(...)` unpacks it, in a manifest a `GzipDecoder`, around its decoder",
    b"PK\x03\x04": "a zip archive, expected text; `ZipArchive(...)` unpacks it, in a manifest a `ZipfileDecoder`",
}
"""What bodies are that begin so, and what unpacks them."""
_ESCAPE = re.compile(r"\\(?:[tvf\\]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4})")


class BodyFile(io.RawIOBase):
    """A file object over the pieces of a body. Reading it raises DecodeError: when the body is a compressed file."""

    def __init__(self, response: Response, pieces: Iterator[bytes]) -> None:
        self._pieces, self._rest = _text(response, pieces), memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override] # what a BufferedReader gives
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = memoryview(piece)
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count


def _text(response: Response, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the pieces unchanged. Raises DecodeError: when they begin as a compressed file does."""
    first = next(pieces, b"")
    for beginning, words in _PACKED.items():
        if first.startswith(beginning):
            raise DecodeError(f"{response.request}: the body is {words}")
    yield first
    yield from pieces


def byte_lines(response: Response) -> Generator[bytes, None, None]:
    r"""Yield the lines of the body, each with its `\n`. Raises DecodeError: when a line is longer than MAX_LINE."""
    with closing(response.chunks()) as chunks, io.BufferedReader(BodyFile(response, chunks), _BUFFER) as file:
        for line in iter(partial(file.readline, MAX_LINE), b""):
            if len(line) == MAX_LINE:
                raise _too_long(response)
            yield line


def text_lines(response: Response, encoding: str) -> Generator[str, None, None]:
    r"""Yield the lines of the body as text, each ending in `\n`, whatever its line end in the body.

    Raises DecodeError: when the bytes are not in `encoding`, or when a line is longer than MAX_LINE. Raises
    ConfigError: when there is no such encoding.
    """
    with closing(response.chunks()) as chunks, text_file(response, chunks, encoding) as file:
        try:
            for line in iter(partial(file.readline, MAX_LINE), ""):
                if len(line) == MAX_LINE:
                    raise _too_long(response)
                yield line
        except UnicodeError as error:
            raise not_encoded(response, encoding, error) from None


def text_file(response: Response, pieces: Iterator[bytes], encoding: str) -> io.TextIOWrapper:
    """Return a text file over the pieces of a body, without a UTF-8 byte order mark, which Excel writes into CSV."""
    try:
        encoding = "utf-8-sig" if codecs.lookup(encoding).name == "utf-8" else encoding
        return io.TextIOWrapper(io.BufferedReader(BodyFile(response, pieces), _BUFFER), encoding)
    except LookupError:
        raise unknown_encoding(response, encoding) from None


def unknown_encoding(response: Response, encoding: str) -> ConfigError:
    """Return the error for an encoding that Python does not have."""
    return ConfigError(f"{response.request}: there is no encoding {encoding!r}; use one such as utf-8")


def not_encoded(response: Response, encoding: str, error: UnicodeError) -> DecodeError:
    """Return the error for bytes that are not in `encoding`. It shows at most the first invalid byte."""
    why = f"byte {error.object[error.start]:#04x}" if isinstance(error, UnicodeDecodeError) else "its end"
    return DecodeError(f"{response.request}: the body is not {encoding} ({why}); set its `encoding`")


def _too_long(response: Response) -> DecodeError:
    limit = MAX_LINE // 2**20
    return DecodeError(f"{response.request}: the body has a line of more than {limit} MiB; check that it has line ends")


@dataclass(frozen=True, slots=True)
class TextLines(StreamedItems):
    """Decodes bodies of text lines: each line, even an empty one, becomes `{"record": line}`."""

    def items(self, response: Response) -> Iterator[JsonValue]:
        for line in text_lines(response, "utf-8"):
            yield {"record": line.removesuffix("\n")}


@dataclass(frozen=True, slots=True)
class Jsonl(StreamedItems):
    """Decodes bodies with a JSON value on each line. Blank lines are skipped.

    lenient: whether to skip lines that are not JSON, with a warning, and to read NaN and Infinity as null.
    """

    lenient: bool = False

    def items(self, response: Response) -> Iterator[JsonValue]:
        loads, bad, number = exact_json, 0, 0
        for number, line in enumerate(byte_lines(response), 1):
            try:
                item = loads(line)
            except orjson.JSONDecodeError as error:
                if line.isspace():
                    continue
                # Errors do not show the line, whose content may be confidential.
                why = f"line {number} is not JSON ({error.msg})"
                if not self.lenient:
                    raise DecodeError(f"{response.request}: {why}{_NO_JSON}") from None
                try:
                    item = lenient_json(line)
                except (ValueError, RecursionError):
                    bad += 1
                    # A body in another format may have millions of such lines.
                    if bad <= _LOGGED:
                        logger.warning("%s: %s; it is skipped", response.request, why)
                    continue
            yield item
        if bad > _LOGGED:
            logger.warning("%s: %d of %d lines are not JSON and were skipped", response.request, bad, number)


@dataclass(frozen=True, slots=True)
class CsvRows(StreamedItems):
    r"""Decodes CSV. The first row has the names; all values are strings, missing ones are None.

    If columns have the same name, the last one is used, as in Python's `csv.DictReader`; each decoder warns of them
    once, and of a body that seems to have another delimiter. delimiter: one character, or an escape such as `\t`.
    set_values_to_none: strings that mean "no value".
    Raises ConfigError: when the delimiter is longer, or when there is no such encoding.
    """

    encoding: str = "utf-8"
    delimiter: str = ","
    set_values_to_none: frozenset[str] = frozenset()
    _warned_of: set[str] = field(default_factory=set, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "delimiter", _unescaped(self.delimiter))

    def items(self, response: Response) -> Iterator[JsonValue]:
        names, rows = names_and_rows(response, text_lines(response, self.encoding), self.delimiter)
        self._warn_of_repeated(response, names)
        self._warn_of_delimiter(response, names)
        none = self.set_values_to_none
        for row in rows:
            values = [None if value in none else value for value in row] if none else row
            yield dict(zip(names, values, strict=True))

    def _warn_of_repeated(self, response: Response, names: list[str]) -> None:
        repeated = [name for name, count in Counter(names).items() if count > 1 and name not in self._warned_of]
        if repeated:
            self._warned_of.update(repeated)
            text = "%s: the first row of the body names several columns %s; only the last of each is read"
            logger.warning(text, response.request, ", ".join(map(repr, repeated)))

    def _warn_of_delimiter(self, response: Response, names: list[str]) -> None:
        other = other_delimiter(names, self.delimiter)
        if other and other not in self._warned_of:
            self._warned_of.add(other)
            logger.warning(
                "%s: the first row of the body is a single column, whose name contains %r, expected columns with %r "
                "between them; if %r is between them, set it as the `delimiter` of the CSV decoder: fields that are "
                "not found are null",
                response.request,
                other,
                self.delimiter,
                other,
            )


def other_delimiter(names: Sequence[str], delimiter: str = ",") -> str:
    """Return the delimiter that the body seems to have in place of `delimiter`; empty if that seems right.

    names: the first row. A table may as well have a single column whose name contains such a character.
    """
    text = names[0] if len(names) == 1 else ""
    other = max(_DELIMITERS.replace(delimiter, ""), key=text.count)
    return other if other in text else ""


def names_and_rows(
    response: Response, lines: Iterator[str], delimiter: str = ","
) -> tuple[list[str], Iterator[list[str | None]]]:
    """Return the first row of a table, and an iterator over the other rows, each as wide as the first.

    Skips empty rows; missing values are None. response: named in errors.
    Raises DecodeError, immediately or while iterating: when the body is not CSV, ends inside a quoted value or a row,
    or has a row with more values than the first. Raises OtherFormat and ErrorInstead: when the body is HTML, XML or
    JSON, which an API may send instead of a table.
    """
    beginning = _beginning(lines)
    _check_format(response, beginning, delimiter)
    lines = chain(beginning, lines)
    if csv.field_size_limit() < MAX_LINE:
        # The limit is global to the interpreter. Its default of 128 KiB is too small for documents inside a table.
        csv.field_size_limit(MAX_LINE)
    read = row_end = 0
    line = ""

    def to_the_end() -> Iterator[str]:
        nonlocal read, line
        for read, line in enumerate(lines, 1):  # noqa: B007 - both are read by `rows`, too
            yield line
        # The reader asks for another line in the middle of a row. At the end of the body, it would return everything
        # since the quote as one value.
        if read > row_end:
            raise DecodeError(
                f"{response.request}: the body ends inside a quoted value of the row that starts at line {row_end + 1};"
                " it is truncated, or has a quote too many"
            )

    table = csv.reader(to_the_end(), delimiter=delimiter)

    def rows() -> Iterator[list[str]]:
        nonlocal row_end
        try:
            for row in table:
                row_end = read
                if row:
                    yield row
        except csv.Error as error:
            raise DecodeError(f"{response.request}: line {table.line_num} of the body is not CSV: {error}") from None

    present = rows()
    names = next(present, [])
    present = _check_content_type(response, names, present)
    width = len(names)
    fit = _RowWidth(response, width, lambda: (table.line_num, line))
    return names, (row if len(row) == width else fit(row) for row in present)  # type: ignore[misc] # only read


def _beginning(lines: Iterator[str]) -> Sequence[str]:
    """Return the lines up to the first that is not blank; if that may be JSON, as many lines as it takes to decide."""
    read, size, first = [], 0, ""
    for line in lines:
        read.append(line)
        size += len(line)
        first = first or line.lstrip(_BLANK)[:1]
        if size > _BEGINNING or (first and first not in "{["):
            break
    return read


def _check_format(response: Response, beginning: Sequence[str], delimiter: str) -> None:
    """Raise OtherFormat or ErrorInstead if the body starts like HTML or XML, or is JSON."""
    text = "".join(beginning).lstrip(_BLANK)
    if text.startswith("<"):
        names = text.splitlines()[0].split(delimiter)
        # Market data has columns such as `<TICKER>,<DATE>`.
        if len(names) == 1 or not all(map(_BRACKETED.fullmatch, names)):
            raise other_format(response, _CSV, text, None)
    elif text.startswith(("{", "[")):
        body: JsonValue = None
        try:
            body = lenient_json(text[:_BEGINNING])
        except json.JSONDecodeError as error:
            cut = sum(map(len, beginning)) > _BEGINNING
            at_end = error.pos + _LONGEST_LITERAL > _BEGINNING or error.msg.startswith("Unterminated string")
            if not (cut and at_end):
                return
        except (ValueError, RecursionError):
            # An integer of thousands of digits, or endlessly nested brackets, are JSON as well.
            pass
        raise other_format(response, _CSV, text, body)


def _check_content_type(response: Response, names: Sequence[str], rows: Iterator[list[str]]) -> Iterator[list[str]]:
    """Return the rows unchanged. Raises OtherFormat: when the content type is HTML or JSON and the table is too small.

    Many servers send everything with such a content type, so a body with several columns and a row passes as a table.
    """
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not names or not kind.endswith(("html", "json")):
        return rows
    first = next(rows, None)
    if first is None or len(names) == 1:
        raise other_format(response, _CSV, ",".join(names), None)
    return chain((first,), rows)


class _RowWidth:
    """Pads rows to the width of a table's first row. last: returns the number of the last line read, and the line."""

    def __init__(self, response: Response, width: int, last: Callable[[], tuple[int, str]]) -> None:
        self._response, self._width, self._last = response, width, last
        # With one of these headers the transport itself detects a truncated body, by its length or its last chunk.
        self._may_be_cut = not {"content-length", "transfer-encoding"} & response.headers.keys()

    def __call__(self, row: list[str]) -> list[str | None]:
        """Return a row, padded with None. Raises DecodeError: when it has too many values or is truncated."""
        (number, line), width = self._last(), self._width
        if any(row[width:]):
            raise DecodeError(
                f"{self._response.request}: line {number} of the body has {len(row)} values, the first row has {width} "
                "names; check the `delimiter`, and the quotes in the source"
            )
        if len(row) < width:
            if self._may_be_cut and number > _FEW_LINES and not line.endswith("\n"):
                raise DecodeError(
                    f"{self._response.request}: the last line of the body has {len(row)} values and no line end, all "
                    f"before it have {width}: the body is truncated"
                )
            # A source that omits trailing values may also do so in its last row, which is then not truncated.
            self._may_be_cut = False
        return [*row[:width], *[None] * (width - len(row))]


def _unescaped(delimiter: str) -> str:
    text = delimiter.encode().decode("unicode_escape") if _ESCAPE.fullmatch(delimiter) else delimiter
    if len(text) != 1:
        raise ConfigError(f"found the delimiter {delimiter!r}, expected one character, or an escape such as '\\t'")
    return text
