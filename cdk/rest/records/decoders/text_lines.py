"""Text lines: each line is a record."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from cdk.base.values import JsonValue
from cdk.rest.http.messages import Response
from cdk.rest.records.decoders.lines import text_lines


@dataclass(frozen=True, slots=True)
class TextLines:
    """Bodies of text lines: each becomes `{"record": line}`, an empty one, too."""

    streams: ClassVar[bool] = True

    def decode(self, response: Response) -> JsonValue:
        return list(self.items(response))

    def items(self, response: Response) -> Iterator[JsonValue]:
        for line in text_lines(response, "utf-8"):
            yield {"record": line.removesuffix("\n")}
