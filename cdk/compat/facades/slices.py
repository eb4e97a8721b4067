"""Names of expressions and slices of ours as custom code passes them, and back."""

from collections.abc import Mapping

from cdk.base.values import Json
from cdk.compat.airbyte.plain_types import StreamSlice
from cdk.declarative.model.context import Names
from cdk.declarative.model.request_builder import RequestBuilder
from cdk.declarative.model.slice_names import slice_names, view
from cdk.state.slice import Partition, Slice
from cdk.state.window import Window

_TOKEN = "next_page_token"  # noqa: S105 - the name under which expressions know it
_EMPTY = StreamSlice(partition={})


def slice_facade(names: Names) -> StreamSlice:
    """The slice in names, as custom code sees it."""
    slice = names.get("stream_slice")
    if slice is None:
        return _EMPTY
    if isinstance(slice, StreamSlice):
        return slice
    partition: Json = getattr(slice, "partition", slice)
    return StreamSlice(
        partition=dict(partition),
        cursor_slice=getattr(slice, "cursor_slice", {}),
        extra_fields=getattr(slice, "extra_fields", {}),
    )


def request_arguments(names: Names) -> dict[str, Json]:
    """The arguments that every method for a part of a request takes."""
    return {"stream_state": {}, "stream_slice": slice_facade(names), _TOKEN: names.get(_TOKEN)}


def slice_of(facade: Mapping[str, Json] | None, fields: tuple[str, str]) -> Slice:
    """A slice of ours for one that custom code has. fields: the names of a window's start and end."""
    if isinstance(facade, StreamSlice) and facade.ours is not None:
        return facade.ours
    facade = facade or {}
    partition = getattr(facade, "partition", {k: v for k, v in facade.items() if k not in fields})
    cursor: Mapping[str, Json] = getattr(facade, "cursor_slice", {k: v for k, v in facade.items() if k in fields})
    start, end = (cursor.get(field) for field in fields)
    window = None if start is None and end is None else Window(start, end, end)
    return Slice(Partition(partition, extra=getattr(facade, "extra_fields", {})), window)


def names_of(facade: Mapping[str, Json] | None, token: Json, fields: tuple[str, str]) -> dict[str, Json]:
    """The names of expressions for a slice that custom code has, and the token of the page."""
    return {**slice_names(view(slice_of(facade, fields), fields)), _TOKEN: token}


def blank(where: str) -> RequestBuilder:
    """A request in which what is put can be looked at."""
    return RequestBuilder("GET", "https://localhost/", where)


def fill(draft: RequestBuilder, provider: Json, names: Mapping[str, Json]) -> None:
    """Put into a request what the methods of `provider` give for `names`."""
    draft.params.update(provider.get_request_params(**names) or {})
    headers = provider.get_request_headers(**names) or {}
    draft.headers.update({name: str(value) for name, value in headers.items()})
    form = provider.get_request_body_data(**names)
    if isinstance(form, str):
        draft.text = form or None
    elif form:
        draft.form.update(form)
    if body := provider.get_request_body_json(**names):
        draft.json = body if isinstance(body, list) else {**draft.json, **body}
