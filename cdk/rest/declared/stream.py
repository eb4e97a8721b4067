"""ResourceStream: the HttpStream that reads a resource."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from cdk.base.errors import FatalError
from cdk.base.values import JsonValue, Record
from cdk.base.wording import did_you_mean
from cdk.rest.declared.options import check_cursor
from cdk.rest.declared.placeholders import Placeholder, Values, filled, filled_path, filled_text, with_settings
from cdk.rest.declared.resources import Config, Family, field_of, resource
from cdk.rest.http.authenticator import Authenticator
from cdk.rest.http.json_path import as_path
from cdk.rest.http_stream import HttpStream
from cdk.rest.limits.budget import Budget
from cdk.rest.tracing import TRACE
from cdk.state.slice import Partition, Slice
from cdk.state.stream_state import StreamState
from cdk.streams.checkpoint.parent_state import ParentState
from cdk.streams.cursor import Cursor
from cdk.streams.page import Page, Token
from cdk.streams.partitions import following_partitions, parent_partitions


class Api(Struct, frozen=True):
    """What all resources of a source share.

    url, auth: with config placeholders. file: the path of the module that declares them, if any.
    """

    url: str
    auth: Authenticator | None
    budget: Budget | None
    family: Family
    file: str | None


class ResourceStream(HttpStream):
    """A resource as a stream.

    declared: the resource. parent: the stream for each of whose records it is read. links: see `parent_partitions`.
    """

    def __init__(self, declared: resource, api: Api, config: Config) -> None:
        super().__init__(config)
        self.declared, self._url, self._auth, self.budget = declared, api.url, api.auth, api.budget
        self._file = api.file
        family = api.family
        parent, self.links = family.parent(declared), family.links(declared)
        self.partitioned = parent is not None
        self.parent = None if parent is None else ResourceStream(parent, api, config)
        # Each of its children reads it, and a user may read it as a stream as well.
        self.use_cache = any(family.parent(other) is declared for other in family.members.values())
        self.name, self.primary_key, self.schema = declared.name, declared.primary_key or (), declared.schema
        self.http_method = "GET" if declared.body_json is None else "POST"
        self.records_path = as_path(declared.records_path or (), "records_path")
        self.paginator = declared.paginator or self.paginator
        self.decoder = declared.decoder or self.decoder
        self.error_handler = declared.error_handler or self.error_handler
        cursor = declared.cursor
        if cursor is not None and not isinstance(cursor, Cursor):
            check_cursor(self.name, cursor := cursor(config))
        self.cursor = cursor

    @property
    def url_base(self) -> str:
        return filled_text(self._url, self._of_config)

    def path(self, slice: Slice) -> str:
        return filled_path(self.declared.path, self._values(slice))

    def params(self, slice: Slice) -> Mapping[str, JsonValue]:
        values = self._values(slice)
        return {name: filled(value, values) for name, value in self.declared.params.items()}

    def headers(self, slice: Slice) -> Mapping[str, str]:
        values = self._values(slice)
        return {name: filled_text(value, values) for name, value in self.declared.headers.items()}

    def body_json(self, slice: Slice) -> JsonValue:
        return filled(self.declared.body_json, self._values(slice))

    def authenticator(self) -> Authenticator | None:
        return None if self._auth is None else with_settings(self._auth, self._of_config)

    @property
    def requested(self) -> JsonValue:
        own = self.declared
        config = {each.field: self._of_config(each) for each in own.requested() if each.scope == "config"}
        return [self.url_base, own.path, dict(own.params), own.body_json, type(self.paginator).__name__, config]

    def code_file(self) -> str | None:
        return self._file

    def partitions(self) -> Iterable[Partition]:
        return super().partitions() if self.parent is None else parent_partitions(self.parent, **self.links)

    def partitions_since(self, parents: Mapping[str, StreamState]) -> Iterable[Partition | ParentState]:
        if self.parent is None or not self.declared.follows_parent:
            return super().partitions_since(parents)
        return following_partitions(self.parent, parents, **self.links)

    def read_page(self, slice: Slice, token: Token | None) -> Page:
        # Filtered here and not in `parse`, because a paginator that counts must see the unfiltered page.
        page, values = super().read_page(slice, token), self._values(slice)
        records: Sequence[Record] = page.records
        if self.declared.record_filter:
            records = [record for record in records if self._matches_filter(record)]
            if (trace := TRACE.get()) is not None and trace.page is not None:
                trace.page = replace(trace.page, selected=len(records))
        if self.declared.add_fields:
            added = {name: filled(value, values) for name, value in self.declared.add_fields.items()}
            records = [self._with_added(record, added) for record in records]
        return replace(page, records=records)

    def _matches_filter(self, record: Record) -> bool:
        for name, value in self.declared.record_filter.items():
            allowed = value if isinstance(value, list | tuple) else [value]
            if name not in record and None not in allowed:
                raise FatalError(
                    f"record_filter: found no field {name!r} in a record, expected it in each, or null among its "
                    f"values{did_you_mean(name, record)}",
                    stream=self.name,
                )
            if record.get(name) not in allowed:
                return False
        return True

    def _with_added(self, record: Record, added: Mapping[str, JsonValue]) -> Record:
        for name in added:
            if name in record and record[name] != added[name]:
                why = f"add_fields: records already have a field {name!r}; rename the added one"
                raise FatalError(why, stream=self.name)
        return {**record, **added}

    def _of_config(self, placeholder: Placeholder) -> JsonValue:
        value: JsonValue = self.config.get(placeholder.field)
        return value

    def _values(self, slice: Slice) -> Values:
        def value_of(placeholder: Placeholder) -> JsonValue:
            scope, name = placeholder.scope, placeholder.field
            match scope:
                case "config":
                    return self._of_config(placeholder)
                case "window":
                    assert slice.window is not None
                    bound: JsonValue = getattr(slice.window, name)
                    return bound
                case _ if (own := field_of(placeholder)) in slice.partition:
                    value: JsonValue = slice.partition[own]
                case _ if name in slice.extra:
                    value = slice.extra[name]
                case _:
                    raise FatalError(
                        f"{placeholder}: found no such field in a record of {scope!r}, expected it in each"
                        f"{did_you_mean(name, slice.extra)}",
                        stream=self.name,
                    )
            return value

        return value_of
