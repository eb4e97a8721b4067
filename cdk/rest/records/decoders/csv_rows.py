"""CSV: rows of text values under the names of the first row."""

import csv
import logging
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from cdk.base.errors import ConfigError, DecodeError
from cdk.base.values import JsonValue
from cdk.rest.http.messages import Response
from cdk.rest.records.decoders.lines import MAX_LINE, text_lines

logger = logging.getLogger(__name__)

_ESCAPE = re.compile(r"\\(?:[tvf\\]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4})")


@dataclass(frozen=True, slots=True)
class CsvRows:
    r"""Bodies of comma-separated values. The first row has the names; all values are text, missing ones None.

    Of columns with one name the last counts, as in Python's `csv.DictReader`; a warning names them, once a decoder.
    delimiter: one character, or an escape such as `\t`. set_values_to_none: texts that mean "no value".
    Raises ConfigError: the delimiter is longer, or there is no such encoding.
    """

    encoding: str = "utf-8"
    delimiter: str = ","
    set_values_to_none: frozenset[str] = frozenset()
    _warned_of: set[str] = field(default_factory=set, init=False, repr=False, compare=False)

    streams: ClassVar[bool] = True
    """As `Decoder` asks: `items` needs memory for one row."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "delimiter", _unescaped(self.delimiter))

    def decode(self, response: Response) -> JsonValue:
        return list(self.items(response))

    def items(self, response: Response) -> Iterator[JsonValue]:
        names, rows = names_and_rows(response, text_lines(response, self.encoding), self.delimiter)
        self._warn_of_repeated(response, names)
        none = self.set_values_to_none
        for row in rows:
            values = [None if value in none else value for value in row] if none else row
            yield dict(zip(names, values, strict=True))

    def _warn_of_repeated(self, response: Response, names: list[str]) -> None:
        repeated = [name for name, count in Counter(names).items() if count > 1 and name not in self._warned_of]
        if repeated:
            self._warned_of.update(repeated)
            logger.warning(
                "%s: the first row of the body names several columns %s; only the last of each is read",
                response.request,
                ", ".join(map(repr, repeated)),
            )


def names_and_rows(
    response: Response, lines: Iterator[str], delimiter: str = ","
) -> tuple[list[str], Iterator[list[str | None]]]:
    """The first row of a table, and the others as they are read, each as wide as the first.

    Empty rows are left out, missing values are None. response: what errors name.
    Raises DecodeError, as reading the rows does: it is no CSV, ends inside a quoted value, or a row has more values
    than the first.
    """
    if csv.field_size_limit() < MAX_LINE:
        # The limit is the interpreter's, and stops at values of 128 KiB, which documents inside a table have.
        csv.field_size_limit(MAX_LINE)
    read = row_end = 0

    def to_the_end() -> Iterator[str]:
        nonlocal read
        for read, line in enumerate(lines, 1):  # noqa: B007 - counts for the rows, too
            yield line
        # Asked for a further line in the middle of a row: the reader would make one value of all since the quote.
        if read > row_end:
            raise DecodeError(
                f"{response.request}: the body ends inside a quoted value of the row from line {row_end + 1} on; "
                "the source was cut off, or has a quote too many"
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
