"""JSON lines: a JSON value on each line."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import orjson

from cdk.base.logs import logger
from cdk.base.records.exact_json import exact_json
from cdk.base.values import JsonValue
from cdk.rest.http.messages import Response
from cdk.rest.records.decoders.lines import byte_lines

_LOGGED = 10


@dataclass(frozen=True, slots=True)
class Jsonl:
    """Bodies with a JSON value on each line. A line that is none is skipped, with a warning."""

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
                bad += 1
                # What is in the line is the source's business; a body of another format has millions of them.
                if bad <= _LOGGED:
                    logger.warning("%s: line %d is no JSON (%s); it is skipped", response.request, number, error.msg)
                continue
            yield item
        if bad > _LOGGED:
            logger.warning("%s: %d of %d lines are no JSON and were skipped", response.request, bad, number)
