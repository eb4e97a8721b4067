"""FileExtractor: reads a response that is a large CSV file, such as a report, in bounded memory."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice

from cdk.base.logs import FirstWarning
from cdk.rest.http.messages import Response
from cdk.rest.http.streamed_response import unpacked
from cdk.rest.records.decoders.packed_formats import gunzipped
from cdk.rest.records.decoders.text_formats import names_and_rows, other_delimiter, text_lines
from cdk.rest.records.extractor import PAGE, Extractor, Records

# fmt: off
NO_VALUE = frozenset({
    "", "NULL", "null", "None", "NaN", "nan", "-NaN", "-nan", "NA", "N/A", "n/a", "<NA>",
    "#NA", "#N/A", "#N/A N/A", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN",
})
# fmt: on
"""Strings that mean "no value" in tables, including the empty string; the list is that of pandas."""

_EMPTY = frozenset({""})


@dataclass(frozen=True, slots=True)
class FileExtractor(Extractor):
    """Extracts the rows of a CSV file, which may be gzipped, as records of strings.

    preserve_na_values: whether to keep strings such as `NA` and `null`, so that only empty ones become None.
    """

    preserve_na_values: bool = False
    _warn: FirstWarning = field(default_factory=FirstWarning, init=False, repr=False, compare=False)

    def pages(self, response: Response) -> Iterator[Records]:
        none = _EMPTY if self.preserve_na_values else NO_VALUE
        file = unpacked(response, gunzipped(response))
        with closing(text_lines(file, "utf-8-sig")) as lines:
            # The files of some sources contain NUL characters; drop them, as Airbyte's ResponseToFileExtractor does.
            titles, rows = names_and_rows(file, (line.replace("\0", "") for line in lines))
            if other := other_delimiter(titles):
                self._warn(
                    f"{response.request}: the first row of the file is a single column, whose name contains {other!r}, "
                    f"expected columns with ',' between them; if {other!r} is between them, read the file with a CSV "
                    "decoder, whose `delimiter` can be set: fields that are not found are null"
                )
            names = _names(titles)
            while batch := list(islice(rows, PAGE)):
                yield [
                    {name: None if value in none else value for name, value in zip(names, row, strict=True)}
                    for row in batch
                ]


def _names(titles: list[str]) -> list[str]:
    """Return unique column names as pandas does: empty and repeated names get a number."""
    names: list[str] = []
    counts: dict[str, int] = {}
    taken = set(titles)
    for i, title in enumerate(titles):
        name = title or f"Unnamed: {i}"
        count = counts.get(name, 0)
        counts[name] = count + 1
        unique = name
        while count and unique in taken:
            unique = f"{name}.{count}"
            count += 1
        names.append(unique)
        taken.add(unique)
    return names
