"""Cursors of other tools as components: a field and an initial value, which shows the format of values."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime

from cdk.authoring.drafts.draft import ConfigFields, Guess, parameter_option
from cdk.base.values import JsonObject, JsonValue, as_object

_ISO = "%Y-%m-%dT%H:%M:%SZ"
_FORMS = {
    "%Y-%m-%d": r"\d{4}-\d\d-\d\d",
    _ISO: r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ",
    "%Y-%m-%dT%H:%M:%S%z": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:?\d\d",
    "%Y-%m-%dT%H:%M:%S.%fZ": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z",
    "%Y-%m-%dT%H:%M:%S": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d",
}
_SECONDS = 10**8
"""Numbers from here on are seconds since 1970."""
_EARLY = datetime(2000, 1, 1, tzinfo=UTC)


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
    bound = {"datetime": config.add(f"start_of_{stream}", start), "datetime_format": form}
    component: JsonObject = {
        "type": "DatetimeBasedCursor",
        "cursor_field": field,
        "datetime_format": form,
        "start_datetime": {"type": "MinMaxDatetime", **bound},
        **options,
    }
    why = "nothing says how its values are written" if default != str(initial) else f"the first value is {initial}"
    return component, Guess(f"incremental by `{field}`, written as {form}", why, check)


def first_cursor_value(cursor: Mapping[str, JsonValue], config: ConfigFields, stream: str) -> JsonValue:
    """Return a value of a component's cursor field that a record of a first read may have."""
    start = as_object(config.properties.get(f"start_of_{stream}")).get("default", cursor.get("start_value"))
    return int(str(start)) if cursor.get("datetime_format") == "%s" else start
