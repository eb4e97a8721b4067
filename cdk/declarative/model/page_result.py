"""PageResult: a page that was read, as those see it who find the next one."""

from collections.abc import Sequence
from dataclasses import dataclass

from cdk.base.records.raw_json_lines import json_lines
from cdk.base.values import JsonValue, Record
from cdk.declarative.model.context import Names
from cdk.rest import Response


@dataclass(frozen=True, slots=True)
class PageResult:
    """A page that was read.

    raw: records in the response. selected: records after the filter; tail: the last of them, and some before it. token:
    what the page was asked with, None for the first.
    """

    response: Response
    body: JsonValue
    raw: int
    selected: int
    tail: Sequence[Record]
    token: JsonValue
    names: Names

    @property
    def last(self) -> Record | None:
        """The last record after the filter. Most paginators count, so it is decoded for those alone that look at it."""
        if (lines := json_lines(self.tail)) is not None:
            return lines.last()
        return self.tail[-1] if self.tail else None
