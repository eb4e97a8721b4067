"""Cursors: from a parameter that requests only new records and the date field that it filters by, or from other tools.

Other tools declare a field and an initial value, which shows the format of values.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from msgspec import Struct

from cdk.authoring.drafts.draft import ConfigFields, Guess, Parameter, parameter_option
from cdk.authoring.drafts.names import CHANGED, CREATED, TIMES, first_of, words
from cdk.base.values import JsonObject, JsonValue, as_list, as_object

_BOUNDS = {"since", "after", "min", "gte", "gt", "from", "start", "begin"}
_SINCE = {"since", "after"}
_ENDS = {"from": "to", "start": "end", "begin": "end"}
_SORTS = ("sort", "sortby", "sortfield", "orderby")
_FILLERS = {"at", "date", "on", "time", "timestamp", "last", "datetime", "filter", "is", "utc"}
_UPPER = {"before", "until", "max", "lte", "lt", "to", "end", "by"}
_QUOTED = re.compile(r"`(\w+)`")
"""A name in backticks, in a description."""
_ISO, _DAY, _EPOCH = "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d", "%s"
_OPTIONS = ("start_time_option", "end_time_option")
_MAIL = "%a, %d %b %Y %H:%M:%S %z"
_START = "2000-01-01T00:00:00Z"
_START_FIELD: JsonObject = {
    "type": "string",
    "title": "Where a first read starts, such as 2024-01-01T00:00:00Z",
    "format": "date-time",
    "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$",
    "default": _START,
}
_FORMS = {
    _DAY: r"\d{4}-\d\d-\d\d",
    _ISO: r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ",
    "%Y-%m-%dT%H:%M:%S%z": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:?\d\d",
    "%Y-%m-%dT%H:%M:%S.%fZ": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z",
    "%Y-%m-%dT%H:%M:%S": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d",
}
"""Formats of initial values, each with the pattern of what it writes."""
_SECONDS = 10**8
"""Initial values that are numbers from here on are seconds since 1970."""
_EARLY = datetime(2000, 1, 1, tzinfo=UTC)


class CursorGuess(Struct, frozen=True):
    """The incremental sync of a stream.

    parameters: those that it sends. always: what every request must send with it.
    """

    component: JsonObject
    parameters: Sequence[str]
    guess: Guess
    always: Mapping[str, JsonValue]


def guess_cursor(
    parameters: Mapping[str, Parameter],
    fields: Mapping[str, Mapping[str, JsonValue]],
    config: ConfigFields,
    stream: str,
) -> CursorGuess | None:
    """Return the cursor of a stream; None if no parameter filters by date, or no field matches that date."""
    rated = [(rate, name) for name, each in parameters.items() if (rate := _rate(name, each, parameters))]
    for _, name in sorted(rated, key=lambda each: -each[0]):
        always = _sort(parameters[name], parameters, fields)
        dates = [field for field in fields if field in (*always.values(), *_QUOTED.findall(parameters[name].text))]
        field = next(iter(dates), None) or _field(set(words(name)), fields)
        if field is not None and _is_date(fields[field]):
            end = parameters.get(_end_of(name, parameters) or "")
            bounds = [parameters[name], *([end] if end is not None and end.required else [])]
            return _built(bounds, always, (field, fields[field]), config, stream)
    return None


def _rate(name: str, parameter: Parameter, others: Mapping[str, Parameter]) -> int:
    """Rate how likely a parameter is a lower bound of dates; 0 if it is not.

    A bare `from` or `start` only counts if there is an upper bound, too.
    """
    own = set(words(name)) | ({"gt"} if name.endswith(">") else set())
    subjects = own - _BOUNDS - _FILLERS
    if (
        not own & (_BOUNDS if subjects or _end_of(name, others) else _SINCE)
        or own & _UPPER
        or not subjects <= CHANGED | CREATED
        or not _dated(parameter, own)
    ):
        return 0
    return 3 if subjects & CHANGED else 2 if not subjects else 1


def _end_of(name: str, parameters: Mapping[str, Parameter]) -> str | None:
    """Return the upper bound that belongs to a lower bound: the same name with the opposite word, such as `to`."""
    end = [_ENDS.get(word, word) for word in words(name)]
    return next((other for other in parameters if words(other) == end), None) if end != words(name) else None


def _sort(
    parameter: Parameter, parameters: Mapping[str, Parameter], fields: Mapping[str, Mapping[str, JsonValue]]
) -> Mapping[str, JsonValue]:
    """Return sort parameters to send if a filter applies to the sort field, so that it applies to the last change."""
    sort = first_of(parameters, _SORTS)
    if sort is None or f"`{sort}" not in parameter.text:
        return {}
    choices = [str(each) for each in as_list(parameters[sort].schema.get("enum")) if each in fields]
    chosen = [each for kinds in (CHANGED, CREATED) for each in choices if set(words(each)) & kinds]
    orders = [
        name for name, each in parameters.items() if {"asc", "desc"} == {*map(str, as_list(each.schema.get("enum")))}
    ]
    return {sort: chosen[0], **dict.fromkeys(orders[:1], "asc")} if chosen else {}


def _dated(parameter: Parameter, own: set[str]) -> bool:
    """Whether a parameter takes a date; bare names such as `after` may be page tokens, too."""
    if str(parameter.schema.get("format")) in {"date-time", "date"} or own & (CHANGED | CREATED | TIMES):
        return True
    return bool(set(words(parameter.text)) & (TIMES | {"iso", "rfc", "unix", "epoch"}))


def _field(parameter: set[str], fields: Mapping[str, Mapping[str, JsonValue]]) -> str | None:
    """Return the date field that a parameter filters by: of a change, of the creation, or any, as its name says.

    If a bare `from` may mean either, the creation is chosen: no new record is missed, though a few are read again.
    """
    subjects = parameter & (CHANGED | CREATED)
    orders = [CHANGED] if subjects & CHANGED else [CREATED] if subjects else [CHANGED, CREATED, TIMES]
    if not subjects and not parameter & _SINCE:
        orders = [CREATED, TIMES]
    for order in orders:
        candidates = [
            name
            for name, schema in fields.items()
            if set(words(name)) & order and set(words(name)) <= order | _FILLERS and _is_date(schema)
        ]
        certain = [name for name in candidates if str(fields[name].get("format")).startswith("date-time")]
        if candidates:
            return (certain or candidates)[0]
    return None


def _is_date(schema: Mapping[str, JsonValue]) -> bool:
    return str(schema.get("type")) in {"string", "integer", "number"}


def _built(
    bounds: Sequence[Parameter],
    always: Mapping[str, JsonValue],
    named: tuple[str, Mapping[str, JsonValue]],
    config: ConfigFields,
    stream: str,
) -> CursorGuess:
    parameter, (name, field) = bounds[0], named
    day = _DAY if parameter.schema.get("format") == "date" else _ISO
    pattern = _EPOCH if parameter.kinds & {"integer", "number"} else day
    written = _EPOCH if field.get("type") != "string" else _MAIL if "2822" in str(field.get("format")) else _ISO
    formats: JsonObject = {"cursor_datetime_formats": list(dict.fromkeys((written, pattern)))}
    start = config.add("start_date", _START_FIELD), _ISO
    options = {option: parameter_option(bound.name) for option, bound in zip(_OPTIONS, bounds, strict=False)}
    component = _datetime_cursor(name, pattern, start, {**formats, **options})
    form = field.get("format") or field.get("type")
    what = f"incremental by `{name}`, from `{parameter.name}` on, at first from `start_date` of the config"
    why = f"the parameter's name, and that `{name}` is a {form}"
    check = f"read `{stream}` twice: `{parameter.name}` must filter by `{name}`, written as {pattern}"
    return CursorGuess(component, [each.name for each in bounds], Guess(what, why, check), always)


def _datetime_cursor(field: str, form: str, start: tuple[str, str], more: Mapping[str, JsonValue]) -> JsonObject:
    """Return a cursor whose values are written in a format. start: where a first read starts, and its format."""
    begin: JsonObject = {"type": "MinMaxDatetime", "datetime": start[0], "datetime_format": start[1]}
    cursor: JsonObject = {"type": "DatetimeBasedCursor", "cursor_field": field, "datetime_format": form}
    return {**cursor, "start_datetime": begin, **more}


def cursor_of(
    field: str, initial: JsonValue, sent: Mapping[str, str], config: ConfigFields, stream: str
) -> tuple[JsonObject, Guess]:
    """Return the incremental sync by a field.

    initial: the first value; None if unknown. Numbers below `_SECONDS` count.
    sent: the parameters for the bounds of a window, keyed by `start_time_option` or `end_time_option`.
    """
    options = {name: parameter_option(parameter) for name, parameter in sent.items()}
    check = f"read `{stream}` twice, and compare its requests"
    if isinstance(initial, int) and initial < _SECONDS:
        count: JsonObject = {"type": "IncrementingCountCursor", "cursor_field": field, "start_value": initial}
        if "start_time_option" in options:
            count["start_value_option"] = options["start_time_option"]
        return count, Guess(f"incremental by `{field}`, a number", f"the first value is {initial}", check)
    known = next((form for form, pattern in _FORMS.items() if re.fullmatch(pattern, str(initial))), None)
    form = "%s" if isinstance(initial, int) else known or _ISO
    default = _EARLY.strftime(form) if initial is None or (known is None and form != "%s") else str(initial)
    start: JsonObject = {"type": "string", "title": f"Where a first read of {stream} starts", "default": default}
    component = _datetime_cursor(field, form, (config.add(f"start_of_{stream}", start), form), options)
    why = "nothing says how its values are written" if default != str(initial) else f"the first value is {initial}"
    return component, Guess(f"incremental by `{field}`, written as {form}", why, check)


def first_cursor_value(cursor: Mapping[str, JsonValue], config: ConfigFields, stream: str) -> JsonValue:
    """Return a value of a component's cursor field that a record of a first read may have."""
    start = as_object(config.properties.get(f"start_of_{stream}")).get("default", cursor.get("start_value"))
    return int(str(start)) if cursor.get("datetime_format") == "%s" else start
