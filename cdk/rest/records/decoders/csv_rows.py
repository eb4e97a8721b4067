"""CSV: rows of text values under the names of the first row."""

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, cast

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

    def __post_init__(self) -> None:
        object.__setattr__(self, "delimiter", _unescaped(self.delimiter))

    def decode(self, response: Response) -> JsonValue:
        return list(self.items(response))

    def items(self, response: Response) -> Iterator[JsonValue]:
        table = rows(response, text_lines(response, self.encoding), self.delimiter)
        # Nothing is missing among the names.
        names = cast("list[str]", next(table))
        none = self.set_values_to_none
        if not none:
            for row in table:
                yield dict(zip(names, row, strict=True))
            return
        for row in table:
            yield {name: None if value in none else value for name, value in zip(names, row, strict=True)}


def rows(response: Response, lines: Iterator[str], delimiter: str = ",") -> Iterator[list[str | None]]:
    """The rows of a table, all as wide as the first, the names. Empty ones are left out, missing values are None.

    Raises DecodeError: it is no CSV, or a row has more values than the first has names.
    """
    if csv.field_size_limit() < MAX_LINE:
        # The limit is the interpreter's, and stops at values of 128 KiB, which documents inside a table have.
        csv.field_size_limit(MAX_LINE)
    table = csv.reader(lines, delimiter=delimiter)
    try:
        names = next(filter(None, table), [])
        yield names  # type: ignore[misc] # nobody writes into it
        width = len(names)
        for row in table:
            if len(row) == width:
                yield row  # type: ignore[misc] # as above
            elif row:
                yield _fitted(response, row, width, table.line_num)
    except csv.Error as error:
        raise DecodeError(f"{response.request}: line {table.line_num} of the body is no CSV: {error}") from None


def _fitted(response: Response, row: list[str], width: int, line: int) -> list[str | None]:
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
