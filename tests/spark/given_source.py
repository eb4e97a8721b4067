"""A source of given streams, with a config that may have a secret."""

from collections.abc import Mapping, Sequence

from cdk import Json, JsonSchema, Source, Stream


class Given(Source):
    config_schema: JsonSchema = {  # noqa: RUF012 - as an author writes it
        "type": "object",
        "properties": {"key": {"type": "string", "airbyte_secret": True}},
    }

    def __init__(self, streams: Sequence[Stream]) -> None:
        self._given = streams

    def streams(self, config: Mapping[str, Json]) -> Sequence[Stream]:  # noqa: ARG002
        return self._given
