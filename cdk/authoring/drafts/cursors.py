"""Cursors: a parameter that asks for what is new, and the date of the records that it goes by."""

from collections.abc import Mapping
from dataclasses import dataclass

from cdk.authoring.drafts.draft import ConfigFields, Guess, Parameter
from cdk.authoring.drafts.names import CHANGED, CREATED, TIMES, words
from cdk.base.values import JsonObject, JsonValue

_BOUNDS = {"since", "after", "min", "gte", "gt", "from"}
_SINCE = {"since", "after"}
_FILLERS = {"at", "date", "on", "time", "timestamp", "last", "datetime", "filter", "is", "utc"}
_UPPER = {"before", "until", "max", "lte", "lt", "to", "end", "by"}
_ISO, _DAY, _EPOCH = "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d", "%s"
_MAIL = "%a, %d %b %Y %H:%M:%S %z"
_START = "2000-01-01T00:00:00Z"
_START_FIELD: JsonObject = {
    "type": "string",
    "title": "Where a first read starts, such as 2024-01-01T00:00:00Z",
    "format": "date-time",
    "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$",
    "default": _START,
}


@dataclass(frozen=True, slots=True)
class CursorGuess:
    """The incremental sync of a stream. parameter: the one that it sends."""

    component: JsonObject
    parameter: str
    guess: Guess


def guess_cursor(
    parameters: Mapping[str, Parameter],
    fields: Mapping[str, Mapping[str, JsonValue]],
    config: ConfigFields,
    stream: str,
) -> CursorGuess | None:
    """The cursor of a stream; None where no parameter asks for what is new, or no field says when that is."""
    rated = [(rate, name) for name, each in parameters.items() if (rate := _rate(name, each))]
    for _, name in sorted(rated, key=lambda each: -each[0]):
        field = _field(set(words(name)), fields)
        if field is not None:
            return _built(parameters[name], field, fields[field], config, stream)
    return None


def _rate(name: str, parameter: Parameter) -> int:
    """How surely a parameter is a lower bound of dates; 0 where it is none."""
    own = set(words(name)) | ({"gt"} if name.endswith(">") else set())
    subjects = own - _BOUNDS - _FILLERS
    if (
        not own & (_BOUNDS if subjects else _SINCE)
        or own & _UPPER
        or not subjects <= CHANGED | CREATED
        or not _dated(parameter, own)
    ):
        return 0
    return 3 if subjects & CHANGED else 2 if not subjects else 1


def _dated(parameter: Parameter, own: set[str]) -> bool:
    """Whether a parameter takes a date: plain names such as `after` are those of pages, too."""
    if str(parameter.schema.get("format")) in {"date-time", "date"} or own & (CHANGED | CREATED | TIMES):
        return True
    return bool(set(words(parameter.text)) & (TIMES | {"iso", "rfc", "unix", "epoch"}))


def _field(parameter: set[str], fields: Mapping[str, Mapping[str, JsonValue]]) -> str | None:
    """The date that a parameter goes by: what has changed, what was created, or any, as it says."""
    subjects = parameter & (CHANGED | CREATED)
    orders = [CHANGED] if subjects & CHANGED else [CREATED] if subjects else [CHANGED, CREATED, TIMES]
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
    parameter: Parameter, name: str, field: Mapping[str, JsonValue], config: ConfigFields, stream: str
) -> CursorGuess:
    day = _DAY if parameter.schema.get("format") == "date" else _ISO
    pattern = _EPOCH if parameter.kinds & {"integer", "number"} else day
    written = _EPOCH if field.get("type") != "string" else _MAIL if "2822" in str(field.get("format")) else _ISO
    start: JsonObject = {
        "type": "MinMaxDatetime",
        "datetime": config.add("start_date", _START_FIELD),
        "datetime_format": _ISO,
    }
    component: JsonObject = {
        "type": "DatetimeBasedCursor",
        "cursor_field": name,
        "datetime_format": pattern,
        "cursor_datetime_formats": list(dict.fromkeys((written, pattern))),
        "start_datetime": start,
        "start_time_option": {
            "type": "RequestOption",
            "inject_into": "request_parameter",
            "field_name": parameter.name,
        },
    }
    form = field.get("format") or field.get("type")
    why = f"the parameter's name, and that `{name}` is a {form}"
    check = f"read `{stream}` twice: `{parameter.name}` must filter by `{name}`, written as {pattern}"
    return CursorGuess(
        component, parameter.name, Guess(f"incremental by `{name}`, from `{parameter.name}` on", why, check)
    )
