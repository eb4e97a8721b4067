"""The Prometheus source: its config."""

from typing import ClassVar

from cdk import JsonSchema, Source
from connectors.prometheus.streams import Samples, Series

_MOMENT = {"type": "string", "format": "date-time", "pattern": "^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\dZ$"}

CONFIG: JsonSchema = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Prometheus",
    "type": "object",
    "required": ["server", "selectors", "start"],
    "additionalProperties": True,
    "properties": {
        "server": {"type": "string", "title": "Server", "pattern": "^https?://", "order": 0},
        "token": {
            "type": "string",
            "title": "Bearer token",
            "description": "Omit it if the server requires no credentials",
            "airbyte_secret": True,
            "order": 1,
        },
        "selectors": {
            "type": "array",
            "title": "Series",
            "description": 'Which series to read, such as `up` or `http_requests_total{job="api"}`',
            "items": {"type": "string"},
            "minItems": 1,
            "order": 2,
        },
        "start": {**_MOMENT, "title": "Start", "description": "The start of a first read", "order": 3},
        "end": {**_MOMENT, "title": "End", "description": "The end; the current time if omitted", "order": 4},
        "window_hours": {"type": "integer", "title": "Hours of a window", "minimum": 1, "default": 24, "order": 5},
        "lookback_hours": {
            "type": "integer",
            "title": "Lookback",
            "description": "How far before the last sample each read begins again, for samples that arrive late",
            "minimum": 0,
            "default": 0,
            "order": 6,
        },
    },
}


class Prometheus(Source):
    """Series and their raw samples."""

    name = "prometheus"
    config_schema = CONFIG
    stream_classes = (Series, Samples)
    documentation_url: ClassVar[str | None] = "https://prometheus.io/docs/prometheus/latest/querying/api/"
