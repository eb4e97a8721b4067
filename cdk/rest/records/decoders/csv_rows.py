"""CSV: rows of text values under the names of the first row."""

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from cdk.base.errors import ConfigError, DecodeError
from cdk.base.values import JsonValue
from cdk.rest.http.messages import Response
from cdk.rest.records.decoders.lines import MAX_LINE, text_lines

_ESCAPE = re.compile(r"\\(?:[tvf\\]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4})")


@dataclass(frozen=True, slots=True)
class CsvRows:
    r"""Bodies of comma-separated values. The first row has the names; all values are text, missing ones None.

    delimiter: one character, or an escape such as `\t`. set_values_to_none: texts that mean "no value".
    Raises ConfigError: the delimiter is longer, or there is no such encoding.
    """

    encoding: str = "utf-8"
    delimiter: str = ","
    set_values_to_none: frozenset[str] = frozenset()

    streams: ClassVar[bool] = True
    """As `Decoder` asks: `items` needs memory for one row."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "delimiter", _unescaped(self.delimiter))

    def decode(self, response: Response) -> JsonValue:
        return list(self.items(response))

    def items(self, response: Response) -> Iterator[JsonValue]:
        names, rows = names_and_rows(response, text_lines(response, self.encoding), self.delimiter)
        none = self.set_values_to_none
        for row in rows:
            values = [None if value in none else value for value in row] if none else row
            yield dict(zip(names, values, strict=True))


def names_and_rows(
    response: Response, lines: Iterator[str], delimiter: str = ","
) -> tuple[list[str], Iterator[list[str | None]]]:
    """The first row of a table, and the others as they are read, each as wide as the first.

    Empty rows are left out, missing values are None. response: what errors name.
    Raises DecodeError, as reading the rows does: it is no CSV, or a row has more values than the first.
    """
    if csv.field_size_limit() < MAX_LINE:
        # The limit is the interpreter's, and stops at values of 128 KiB, which documents inside a table have.
        csv.field_size_limit(MAX_LINE)
    table = csv.reader(lines, delimiter=delimiter)

    def rows() -> Iterator[list[str]]:
        try:
            yield from filter(None, table)
        except csv.Error as error:
            raise DecodeError(f"{response.request}: line {table.line_num} of the body is no CSV: {error}") from None

    present = rows()
    names = next(present, [])
    width = len(names)
    return names, (
        row if len(row) == width else _as_wide(response, row, width, table.line_num)  # type: ignore[misc] # only read
        for row in present
    )


def _as_wide(response: Response, row: list[str], width: int, line: int) -> list[str | None]:
    """A row with None for its missing values. Raises DecodeError: it has values without a name."""
    if any(row[width:]):
        raise DecodeError(
            f"{response.request}: line {line} of the body has {len(row)} values, the first row has {width} names; "
            "check the `delimiter`, and the quotes in the source"
        )
    return [*row[:width], *[None] * (width - len(row))]


def _unescaped(delimiter: str) -> str:
    text = delimiter.encode().decode("unicode_escape") if _ESCAPE.fullmatch(delimiter) else delimiter
    if len(text) != 1:
        raise ConfigError(f"found the delimiter {delimiter!r}, expected one character, or an escape such as '\\t'")
    return text
