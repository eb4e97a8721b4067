"""Converts the paginators of dlt to components of manifests."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from cdk.authoring.drafts.draft import parameter_option, quoted
from cdk.authoring.drafts.pagination import PageFacts, PaginatorGuess, counting, following, value_at
from cdk.base.values import JsonObject, JsonValue, as_string

_OPTIONS: Mapping[str, set[str]] = {
    "single_page": set(),
    "json_link": {"next_url_path"},
    "header_link": {"links_next_key"},
    "cursor": {"cursor_path", "cursor_param"},
    "offset": {"limit", "offset_param", "limit_param"},
    "page_number": {"base_page", "page_param"},
}
"""dlt's types of paginators, each with the options that the component has, too."""

_ENDS_ANYWAY: Mapping[str, JsonValue] = {"total_path": None, "stop_after_empty_page": True}
"""Options whose value means that pages end with an empty page, which the component assumes anyway."""
_DLT = "dlt's file says so"


def paging_of(settings: Mapping[str, JsonValue], stream: str) -> tuple[PaginatorGuess, Sequence[tuple[str, str]]]:
    """Return the paginator for dlt's settings, with dlt's defaults, and the options without an equivalent, with why."""
    name = as_string(settings.get("type"))
    kind = "json_link" if name == "json_response" else name
    if kind not in _OPTIONS:
        return PaginatorGuess(None, None), [("type", f"found {kind!r}, which has no equivalent component")]
    unknown = settings.keys() - _OPTIONS[kind] - {"type"}
    lost = sorted(name for name in unknown if settings[name] != _ENDS_ANYWAY.get(name, ...))
    return _paging(kind, settings, PageFacts(stream, {}, {}, {}, "", None)), [
        (name, "no component has it") for name in lost
    ]


def _paging(kind: str, settings: Mapping[str, JsonValue], pages: PageFacts) -> PaginatorGuess:
    def named(name: str, default: str) -> str:
        return as_string(settings.get(name)).removeprefix("$.") or default

    url: JsonObject = {"type": "RequestPath"}
    match kind:
        case "json_link":
            path = named("next_url_path", "next")
            return following(pages, url, value_at(path.split(".")), what=f"the URL in `{path}`", why=_DLT)
        case "header_link":
            value = f"headers['link'].get({quoted(named('links_next_key', 'next'))}, {{}}).get('url')"
            return following(pages, url, value, what="the header `Link`", why=_DLT)
        case "cursor":
            path, param = named("cursor_path", "cursors.next"), named("cursor_param", "after")
            what = f"`{param}`, with `{path}` of the body"
            return following(pages, parameter_option(param), value_at(path.split(".")), what=what, why=_DLT)
        case "offset":
            size = settings.get("limit")
            always = {named("limit_param", "limit"): str(size)} if isinstance(size, int) else {}
            offset = named("offset_param", "offset")
            # No page size: nothing says whether the API fills all pages before the last one.
            counted = counting(pages, {"type": "OffsetIncrement"}, offset, 1, what=f"`{offset}`", why=_DLT)
            return replace(counted, handled=counted.handled | always.keys(), always=always)
        case "page_number":
            first = base if isinstance(base := settings.get("base_page"), int) else 0
            strategy: JsonObject = {"type": "PageIncrement", "start_from_page": first, "inject_on_first_request": True}
            page = named("page_param", "page")
            return counting(pages, strategy, page, first + 1, what=f"`{page}`", why=_DLT)
        case _:
            return PaginatorGuess(None, None)
