"""Converts names of expressions and slices to the forms that custom code uses, and back."""

from collections.abc import Mapping

from cdk.base.values import JsonValue
from cdk.compat.airbyte.http.requesters import RequestOptionsProvider
from cdk.compat.airbyte.plain_types import StreamSlice
from cdk.compat.airbyte.streams import slice_facade
from cdk.declarative.model.context import Names
from cdk.declarative.model.request_builder import RequestBuilder
from cdk.declarative.model.slice_names import slice_names, view
from cdk.state.slice import Partition, Slice
from cdk.state.window import Window

_TOKEN = "next_page_token"  # noqa: S105 - the name under which expressions know it
_EMPTY = StreamSlice(partition={})


def slice_in(names: Names) -> StreamSlice:
    """Return the slice in `names`, in the form that custom code uses."""
    match names.get("stream_slice"):
        case None:
            return _EMPTY
        case StreamSlice() as facade:
            return facade
        case slice:
            fields = slice if isinstance(slice, Mapping) else {}
            return StreamSlice(
                partition=dict(getattr(slice, "partition", fields)),
                cursor_slice=getattr(slice, "cursor_slice", {}),
                extra_fields=getattr(slice, "extra_fields", {}),
            )


def request_arguments(names: Names) -> dict[str, object]:
    """The arguments of every method that returns a part of a request."""
    return {"stream_state": {}, "stream_slice": slice_in(names), _TOKEN: names.get(_TOKEN)}


def slice_arguments(slice: Slice, fields: tuple[str, str]) -> dict[str, object]:
    """The arguments of a method that returns the part of a request which selects the slice."""
    return {"stream_state": {}, "stream_slice": slice_facade(slice, fields), _TOKEN: None}


def slice_of(facade: object, fields: tuple[str, str]) -> Slice:
    """Convert a slice from custom code to the kit's. fields: the names of the window's start and end."""
    native: Slice | None = getattr(facade, "native", None)
    if native is not None:
        return native
    items = dict(facade) if isinstance(facade, Mapping) else {}
    partition = getattr(facade, "partition", {k: v for k, v in items.items() if k not in fields})
    cursor: Mapping[str, JsonValue] = getattr(facade, "cursor_slice", items)
    start, end = (cursor.get(field) for field in fields)
    window = None if start is None and end is None else Window(start, end, end)
    return Slice(Partition(partition, extra=getattr(facade, "extra_fields", {})), window)


def names_of(facade: object, token: object, fields: tuple[str, str]) -> dict[str, object]:
    """The names of expressions for a slice from custom code and a page token."""
    return {**slice_names(view(slice_of(facade, fields), fields)), _TOKEN: token}


def blank(where: str) -> RequestBuilder:
    """An empty draft of a request, to see what an object puts into it. where: named in errors."""
    return RequestBuilder("GET", "https://localhost/", where)


def fill(draft: RequestBuilder, provider: RequestOptionsProvider, names: Mapping[str, object]) -> None:
    """Put the parts that the methods of `provider` return for `names` into a draft."""
    draft.params.update(provider.get_request_params(**names) or {})
    headers = provider.get_request_headers(**names) or {}
    draft.headers.update({name: str(value) for name, value in headers.items()})
    form = provider.get_request_body_data(**names)
    if isinstance(form, str):
        draft.text = form or None
    elif form:
        draft.form.update(form)
    if body := provider.get_request_body_json(**names):
        draft.json = {**draft.json, **body} if isinstance(body, dict) and isinstance(draft.json, dict) else body
