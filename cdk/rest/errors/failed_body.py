"""Whether a body in which no records lie says that the API failed, though its status is that of a success."""

import re

from cdk.base.values import JsonValue

_ERRORS = {"error", "errors", "failure", "failures", "err", "error_message", "errormessage"}
"""Fields that are about nothing else than what went wrong."""

_SUCCESSES = {"success", "successful", "succeeded", "ok"}

_OUTCOMES = {"status", "state", "result", "outcome", "code", "status_code", "statuscode", "error_code", "errorcode"}
_TEXTS = {"message", "msg", "detail", "reason", "title", "type"}

_FAILED = re.compile(
    r"\b(errors?|err|fail(ed|ure|s)?|faults?|exception|quota|throttl\w*|denied|forbidden|unauthori[sz]ed|expired|"
    r"unavailable|overloaded|busy|time(d)?[ _-]?out|too[ _-]many|(rate|limit)[ _-](limit\w*|exceeded|reached)|exceeded|"
    r"exhausted|maintenance)\b",
    re.IGNORECASE,
)
_WORD_ENDS = re.compile(r"_|(?<=[a-z])(?=[A-Z])")
_HTTP_ERRORS = range(400, 600)


def says_failed(body: JsonValue) -> bool:
    """Whether the body has an error, or a status or message whose words are those of a failure.

    That the records' place is missing is none: many APIs leave out what is empty.
    """
    return type(body) is dict and any(_is_failure(name.lower(), value) for name, value in body.items())


def has_graphql_errors(body: JsonValue) -> bool:
    """Whether the body says so as GraphQL does, where nothing else means that: a list of errors with their messages."""
    errors = body.get("errors") if type(body) is dict else None
    return type(errors) is list and bool(errors) and all(type(e) is dict and "message" in e for e in errors)


def _is_failure(name: str, value: JsonValue) -> bool:
    if name in _ERRORS:
        return bool(value)
    if name in _SUCCESSES and value is False:
        return True
    if name in _OUTCOMES and type(value) is int:
        return value in _HTTP_ERRORS
    return name in _OUTCOMES | _TEXTS and type(value) is str and _FAILED.search(_WORD_ENDS.sub(" ", value)) is not None
