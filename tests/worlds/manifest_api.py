"""An API of records, some in partitions that come and go, and manifests that read it: one of each kind there is."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from cdk import Json, Record
from cdk.declarative.manifest import Manifest
from cdk.declarative.model.context import Runtime
from cdk.declarative.source import ManifestSource
from cdk.rest import Headers, Request, Response
from tests.worlds.server import DIALECTS, PARTS, Server

URL = "https://things.test"
HALVES = 2
GROUP = 2
UNITS = {
    "iso": "PT1S",
    "seconds": "PT1S",
    "minutes": "PT1M",
    "days": "P1D",
    "days as seconds": "P1D",
    "milliseconds": "PT1S",
}
"""What the API's filter tells apart, by the dialect in which times are written."""
_PARENT_TIMES = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True)
class Plan:
    """What a manifest says.

    router: none, list, substream, follow (parents that have changed), product (of parts and halves), group or
    parent_group. shared: the partitions share a cursor. filter: both ends of the window are sent, low: its start alone,
    client: none, and the manifest drops what lies outside, feed: the same, newest first.
    later_start: the cursor starts a day after the first record. min_start: the start is kept from being too early.
    end: days from now to where the cursor ends; None: the manifest does not say. cursor: whether there is one.
    descending: whether the newest are asked for first. touching: whether windows end where the next ones start.
    """

    dialect: str = "iso"
    router: str = "none"
    pages: str = "token"
    filter: str = "both"
    step: str | None = None
    lookback: int = 0
    shared: bool = False
    later_start: bool = False
    min_start: bool = False
    end: int | None = None
    cursor: bool = True
    descending: bool = False
    touching: bool = False

    @property
    def start(self) -> datetime:
        """Where a first read starts."""
        return DIALECTS[self.dialect].begin + timedelta(days=1) * self.later_start

    @property
    def grouped(self) -> bool:
        """Whether partitions are read in groups."""
        return "group" in self.router

    @property
    def shares(self) -> bool:
        """Whether one cursor serves all partitions."""
        return self.router != "none" and (self.shared or self.grouped)


@dataclass(eq=False)
class Api(Server):
    """The server's records over HTTP, by a clock that goes on by itself.

    clock: after the time of each record. listed: the parts that there are now, in order; changed: when the parent
    record of each has changed.
    """

    begin: datetime = field(init=False)
    clock: datetime = field(init=False)
    listed: list[int] = field(default_factory=lambda: list(range(PARTS)))
    changed: dict[int, datetime] = field(default_factory=dict)
    newest_first: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.begin = self.clock = DIALECTS[self.dialect].begin

    @property
    def now(self) -> datetime:
        return self.clock

    def add(self, id: Json, hours: float, form: int, *, late: float = 0, cursor: Json = ..., behind: bool) -> None:
        """Add a record, at the clock or so many hours `late` where that is not 0, else `hours` after the last one.

        behind: no earlier than the clock.
        """
        floor, self._floor = self._floor, self.begin
        before = self._last
        if late or behind:
            self._last = self.clock - timedelta(hours=late)
            hours = 0 if late else hours
        extra = {} if cursor is ... else {"cursor": cursor}
        self.put(id, {}, hours, form, **extra)
        self._floor, self._last = floor, max(before, self._last)
        self.clock = max(self.clock, self._last)
        record = {**self.records[-1], "half": len(self.records) // 2 % HALVES}
        self.records[-1] = record
        self.change(record["part"])

    def change(self, part: int) -> None:
        """Have the parent record of a part change now."""
        self.changed[part] = self.clock
        self.clock += timedelta(seconds=1)

    def list_part(self, part: int, *, first: bool) -> None:
        """Have a part come, before all others or behind them, or go, unless it is the last."""
        if part not in self.listed:
            self.listed.insert(0 if first else len(self.listed), part)
            self.change(part)
        elif len(self.listed) > 1:
            self.listed.remove(part)

    def send(self, request: Request) -> Response:
        """Answer a request. Raises what happens at it."""
        self.arrive()
        params = dict(request.params)
        if request.url.endswith("/parts"):
            changes = {part: f"{self.changed.get(part, self.begin):{_PARENT_TIMES}}" for part in self.listed}
            since = str(params.get("since", ""))
            body: Json = {"data": [{"id": f"p{part}", "u": at} for part, at in changes.items() if at >= since]}
        else:
            body = self._page(self._chosen(params), params)
        headers = Headers({"Content-Type": "application/json"})
        return Response(200, headers, json.dumps(body).encode(), request.full_url, request)

    def _chosen(self, params: Mapping[str, Any]) -> Sequence[Record]:
        """The records that a request asks for, those that a feed has first being the newest."""
        records, read = list(self.present), DIALECTS[self.dialect].read
        if "part" in params:
            parts = params["part"].split(",")
            records = [record for record in records if f"p{record['part']}" in parts]
        if "half" in params:
            records = [record for record in records if record["half"] == int(params["half"])]
        if "low" in params:
            low = read(params["low"])
            records = [r for r in records if r["n"] in self.undated or self.times[r["n"]] >= low]
        if "high" in params:
            high = read(params["high"])
            records = [r for r in records if r["n"] in self.undated or self.times[r["n"]] <= high]
        if self.newest_first or params.get("order") == "desc":
            records.sort(key=lambda record: self.times[record["n"]], reverse=True)
        return records

    def _page(self, records: Sequence[Record], params: Mapping[str, Any]) -> Json:
        size = int(params.get("size", len(records) or 1))
        if "after" in params:
            # The token names a record, so that what comes meanwhile shifts no page.
            begin = next(i for i, record in enumerate(records) if _token(record) == params["after"]) + 1
        else:
            begin = int(params.get("offset", 0)) or int(params.get("page", 0)) * size
        page = records[begin : begin + size]
        return {"data": page, "next": _token(page[-1]) if begin + size < len(records) else None}


def _token(record: Record) -> str:
    return f"after-{record['n']}"


def source(api: Api, plan: Plan) -> ManifestSource:
    """The source of a manifest that reads the API."""
    made = {
        "version": "6.0.0",
        "check": {"type": "CheckStream", "stream_names": ["things"]},
        "streams": [_stream(api, plan)],
    }
    return ManifestSource(Manifest(made), Runtime(transport=api, clock=lambda: api.now, sleep=lambda _: None))


def _stream(api: Api, plan: Plan) -> dict[str, Any]:
    params = {"part": "{{ stream_partition['part'] | join(',') }}"} if plan.grouped else {}
    if plan.descending:
        params["order"] = "desc"
    retriever: dict[str, Any] = {
        "type": "SimpleRetriever",
        "requester": _requester("things", params),
        "record_selector": _SELECTOR,
        "paginator": _paginator(plan.pages, api.page_size),
    }
    if (router := _router(api, plan)) is not None:
        retriever["partition_router"] = router
    kinds = {"n": "integer", "id": "integer", "part": "integer", "half": "integer"}
    properties = {name: {"type": kind} for name, kind in kinds.items()}
    made = {
        "type": "DeclarativeStream",
        "name": "things",
        "primary_key": "id",
        "retriever": retriever,
        "schema_loader": {"type": "InlineSchemaLoader", "schema": {"type": "object", "properties": properties}},
    }
    return {**made, "incremental_sync": _cursor(api, plan)} if plan.cursor else made


_SELECTOR = {"type": "RecordSelector", "extractor": {"type": "DpathExtractor", "field_path": ["data"]}}


def _requester(path: str, params: Mapping[str, str]) -> dict[str, Any]:
    handler = {"type": "DefaultErrorHandler", "max_retries": 0}
    return {
        "type": "HttpRequester",
        "url": f"{URL}/{path}",
        "request_parameters": dict(params),
        "error_handler": handler,
    }


def _option(name: str) -> dict[str, str]:
    return {"type": "RequestOption", "inject_into": "request_parameter", "field_name": name}


def _paginator(pages: str, size: int) -> dict[str, Any]:
    strategies: dict[str, tuple[str, dict[str, Any]]] = {
        "offset": ("offset", {"type": "OffsetIncrement", "page_size": size}),
        "page": ("page", {"type": "PageIncrement", "page_size": size}),
        "token": ("after", {"type": "CursorPagination", "cursor_value": "{{ response.next }}", "page_size": size}),
    }
    if pages == "none":
        return {"type": "NoPagination"}
    name, strategy = strategies[pages]
    return {
        "type": "DefaultPaginator",
        "pagination_strategy": strategy,
        "page_token_option": _option(name),
        "page_size_option": _option("size"),
    }


def _router(api: Api, plan: Plan) -> Json:
    values = [f"p{part}" for part in api.listed]
    listed = {
        "type": "ListPartitionRouter",
        "cursor_field": "part",
        "values": values,
        **({} if plan.grouped else {"request_option": _option("part")}),
    }
    match plan.router:
        case "none":
            return None
        case "list":
            return listed
        case "product":
            halves = {**listed, "cursor_field": "half", "values": [f"{half}" for half in range(HALVES)]}
            return [listed, {**halves, "request_option": _option("half")}]
        case "group":
            return {"type": "GroupingPartitionRouter", "group_size": GROUP, "underlying_partition_router": listed}
        case "parent_group":
            inner = _children(follows=False, asks=False)
            return {"type": "GroupingPartitionRouter", "group_size": GROUP, "underlying_partition_router": inner}
        case _:
            return _children(follows=plan.router == "follow", asks=True)


def _children(*, follows: bool, asks: bool) -> dict[str, Any]:
    parent: dict[str, Any] = {
        "type": "DeclarativeStream",
        "name": "parts",
        "primary_key": "id",
        "retriever": {"type": "SimpleRetriever", "requester": _requester("parts", {}), "record_selector": _SELECTOR},
        "schema_loader": {"type": "InlineSchemaLoader", "schema": {"type": "object", "properties": {}}},
    }
    if follows:
        parent["incremental_sync"] = {
            "type": "DatetimeBasedCursor",
            "cursor_field": "u",
            "datetime_format": _PARENT_TIMES,
            "start_datetime": "2000-01-01T00:00:00Z",
            "start_time_option": _option("since"),
        }
    config = {
        "type": "ParentStreamConfig",
        "stream": parent,
        "parent_key": "id",
        "partition_field": "part",
        "incremental_dependency": follows,
        **({"request_option": _option("part")} if asks else {}),
    }
    return {"type": "SubstreamPartitionRouter", "parent_stream_configs": [config]}


def _cursor(api: Api, plan: Plan) -> dict[str, Any]:
    dialect = DIALECTS[plan.dialect]
    pattern = dialect.states or dialect.formats[0]

    def written(time: datetime) -> str:
        return f"{time.timestamp():.0f}" if pattern == "%s" else f"{time:{pattern}}"

    start: Json = written(plan.start)
    if plan.min_start:
        start = {
            "type": "MinMaxDatetime",
            "datetime": written(plan.start - timedelta(days=9)),
            "datetime_format": pattern,
            "min_datetime": written(plan.start),
        }
    cursor: dict[str, Any] = {
        "type": "DatetimeBasedCursor",
        "cursor_field": "at",
        "datetime_format": pattern,
        "start_datetime": start,
        "global_substream_cursor": plan.shared,
        "is_client_side_incremental": plan.filter in {"client", "feed"},
        "is_data_feed": plan.filter == "feed",
    }
    if dialect.states is not None:
        cursor["cursor_datetime_formats"] = list(dialect.formats)
    if plan.filter in {"both", "low"}:
        cursor["start_time_option"] = _option("low")
    if plan.filter == "both":
        cursor["end_time_option"] = _option("high")
    if plan.step is not None:
        cursor |= {"step": plan.step, "cursor_granularity": "PT0S" if plan.touching else UNITS[plan.dialect]}
    if plan.lookback:
        cursor["lookback_window"] = f"P{plan.lookback}D"
    if plan.end is not None:
        cursor["end_datetime"] = written(api.now + timedelta(days=plan.end))
    return cursor
