"""The streams of Prometheus: series, and the samples of each.

Only an instant query of a range returns raw samples: `load[86400000ms]` at a time returns those of the milliseconds up
to it. Whether a range includes its start differs between versions 2 and 3, so a range starts a millisecond before its
window, and samples before the window are dropped. A selector also returns series with more labels than it names; each
of these is a separate partition, and dropped here.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from cdk import DatetimeCursor, Json, JsonSchema, Partition, Record, Slice, parent_partitions
from cdk.rest import Authenticator, Bearer, HttpStream, Response

_FORMAT = "%Y-%m-%dT%H:%M:%S.%_msZ"
_MILLISECOND = timedelta(milliseconds=1)
_LABELS: JsonSchema = {"type": "object", "additionalProperties": {"type": "string"}}


class PrometheusStream(HttpStream):
    """A stream of a Prometheus server: its address and its authentication."""

    @property
    def url_base(self) -> str:
        return str(self.config["server"]).rstrip("/")

    def authenticator(self) -> Authenticator | None:
        return Bearer(self.config["token"]) if self.config.get("token") else None


class Series(PrometheusStream):
    """The series that the config selects: their text, their name and all labels."""

    name = "series"
    primary_key = "series"
    records_path = ("data",)
    schema: JsonSchema = {  # noqa: RUF012 - as an author writes it
        "type": "object",
        "properties": {"series": {"type": "string"}, "metric": {"type": "string"}, "labels": _LABELS},
    }

    def path(self, slice: Slice) -> str:
        return "/api/v1/series"

    def params(self, slice: Slice) -> Mapping[str, Json]:
        # Without an end, Prometheus reads up to the present.
        return {"match[]": self.config["selectors"], "start": self.config["start"], "end": self.config.get("end")}

    def parse(self, response: Response, slice: Slice) -> Sequence[Record]:
        return [
            {"series": text_of(labels), "metric": labels.get("__name__", ""), "labels": labels}
            for labels in super().parse(response, slice)
        ]


class Samples(PrometheusStream):
    """The raw samples of each series, in windows of time."""

    name = "samples"
    primary_key = ("series", "at")
    records_path = ("data", "result")
    schema: JsonSchema = {  # noqa: RUF012
        "type": "object",
        "properties": {
            "series": {"type": "string"},
            "metric": {"type": "string"},
            "labels": _LABELS,
            "at": {"type": "string", "format": "date-time"},
            "value": {"type": "string", "description": "As Prometheus writes it: also NaN, +Inf and -Inf"},
        },
    }

    def __init__(self, config: Mapping[str, Json] | None = None) -> None:
        super().__init__(config)
        self.cursor = DatetimeCursor(
            "at",
            start=self.config.get("start", "1970-01-01T00:00:00Z"),
            end=self.config.get("end"),
            step=timedelta(hours=self.config.get("window_hours", 24)),
            granularity=_MILLISECOND,
            lookback=timedelta(hours=self.config.get("lookback_hours", 0)),
            formats=(_FORMAT,),
        )

    def partitions(self) -> Iterable[Partition]:
        return parent_partitions(Series(self.config), series="series")

    def path(self, slice: Slice) -> str:
        return "/api/v1/query"

    def params(self, slice: Slice) -> Mapping[str, Json]:
        start, end = _bounds(slice)
        milliseconds = (end - start) // _MILLISECOND + 1
        return {"query": f"{slice.partition['series']}[{milliseconds}ms]", "time": f"{end.timestamp():.3f}"}

    def parse(self, response: Response, slice: Slice) -> Sequence[Record]:
        return list(self._samples(super().parse(response, slice), slice))

    def _samples(self, results: Sequence[Record], slice: Slice) -> Iterator[Record]:
        start, _ = _bounds(slice)
        for result in results:
            labels = result["metric"]
            if (series := text_of(labels)) != slice.partition["series"]:
                continue
            for seconds, value in result["values"]:
                at = datetime.fromtimestamp(round(1000 * seconds) / 1000, UTC)
                if at >= start:
                    text = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
                    metric = labels.get("__name__", "")
                    yield {"series": series, "metric": metric, "labels": labels, "at": text, "value": value}


def text_of(labels: Mapping[str, Json]) -> str:
    """Return a series as a query names it: `load{host="a"}`, with sorted labels."""
    # JSON and PromQL escape quotes, backslashes and control characters alike.
    pairs = (f"{name}={json.dumps(labels[name], ensure_ascii=False)}" for name in sorted(labels) if name != "__name__")
    return f"{labels.get('__name__', '')}{{{','.join(pairs)}}}"


def _bounds(slice: Slice) -> tuple[datetime, datetime]:
    assert slice.window is not None
    start, end = (datetime.fromisoformat(str(bound)) for bound in (slice.window.start, slice.window.end))
    return start, end
