"""JSON lines: a JSON value on each line."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import orjson

from cdk.base.errors import DecodeError
from cdk.base.logs import logger
from cdk.base.records.exact_json import exact_json
from cdk.base.values import JsonValue
from cdk.rest.http.messages import Response
from cdk.rest.records.decoder import lenient_json
from cdk.rest.records.decoders.lines import byte_lines

_LOGGED = 10
_ADVICE = (
    "; expected a JSON value on each line. An error page, or a body that was cut short, looks like this. Where such "
    "lines belong to the source, a lenient decoder skips them: `Jsonl(lenient=True)`, or `lenient: true` in a manifest"
)


@dataclass(frozen=True, slots=True)
class Jsonl:
    """Bodies with a JSON value on each line; what is blank is no line.

    lenient: skip a line that is no JSON, with a warning, and take NaN and Infinity for null.
    """

    lenient: bool = False

    streams: ClassVar[bool] = True

    def decode(self, response: Response) -> JsonValue:
        return list(self.items(response))

    def items(self, response: Response) -> Iterator[JsonValue]:
        loads, bad, number = exact_json, 0, 0
        for number, line in enumerate(byte_lines(response), 1):
            try:
                item = loads(line)
            except orjson.JSONDecodeError as error:
                if line.isspace():
                    continue
                # What is in the line is the source's business.
                why = f"line {number} is no JSON ({error.msg})"
                if not self.lenient:
                    raise DecodeError(f"{response.request}: {why}{_ADVICE}") from None
                try:
                    item = lenient_json(line)
                except (ValueError, RecursionError):
                    bad += 1
                    # A body of another format has millions of them.
                    if bad <= _LOGGED:
                        logger.warning("%s: %s; it is skipped", response.request, why)
                    continue
            yield item
        if bad > _LOGGED:
            logger.warning("%s: %d of %d lines are no JSON and were skipped", response.request, bad, number)
