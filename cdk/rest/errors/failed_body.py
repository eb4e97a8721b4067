"""Detects bodies without records that report a failure of the API, although the status is a success."""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain

from cdk.base.errors import DecodeError, TransientError
from cdk.base.first_use import lazy_pattern
from cdk.base.values import SCALARS, JsonValue, canonical
from cdk.rest.errors.api_message import find_message
from cdk.rest.http.json_path import path
from cdk.rest.http.messages import Response

_ERRORS = {
    *("error", "errors", "failure", "failures", "err", "fault", "exception"),
    *("error_message", "errormessage", "error_msg", "errormsg", "err_msg", "exception_message", "exceptionmessage"),
}
"""Fields that only ever describe an error."""

_SUCCESSES = {"success", "successful", "succeeded", "ok"}

_OUTCOMES = {"status", "state", "result", "outcome", "code", "status_code", "statuscode", "error_code", "errorcode"}
_TEXTS = {"message", "msg", "detail", "reason", "title", "type"}

_ERROR_TEXTS = {"error_description", "error_detail", "error_code", "errorcode", "error_type", "error_reason"}
_MESSAGES = {"message", "msg", "detail", "details"}
_ENVELOPES = {"meta", "metadata", "response", "result", "header"}
"""Objects beside the records that describe the response."""
_CONTAINERS = _ENVELOPES | {"data"}
_ENTITY_FIELDS = {"id", "uuid", "sha"}
"""Fields of an object that is an entity, such as a job: its errors and messages are about itself, not the request."""
_DONE = {"success", "succeeded", "ok", "200"}

_OUTAGE_WORDS = r"""
    quota | throttl\w* | (requests?|usage|api|calls?|daily|hourly|monthly|concurrency)[ _-]limit\w* |
    rate[ _-]?limit\w* | too[ _-]many[ _-](\w+[ _-])?(requests|calls) |
    time(d)?[ _-]?out | unavailable | overload(ed)? | busy | maintenance | outage | exhausted |
    temporary[ _-](error|failure|problem) | (internal|server|gateway|backend)[ _-]error | bad[ _-]gateway |
    (again|retry)[ _-](later|after) | denied | forbidden | unauthori[sz]ed | unauthenticated |
    not[ _-](authori[sz]ed|authenticated|permitted) | expired | suspended | insufficient[ _-]\w+ |
    (invalid|missing)[ _-]((api|access|auth\w*)[ _-](key|token)|credentials) | authentication[ _-](failed|required) |
    payment[ _-]required
"""
_FAILURE_WORDS = rf"""
    errors? | err | fail(ed|ure|s)? | faults? | exception | too[ _-]many | limit[ _-](limit\w*|exceeded|reached) |
    exceeded | rate[ _-](exceeded|reached) | {_OUTAGE_WORDS}
"""
# `No expired vouchers` negates the words that follow, up to its end; `no quota left` does not.
_NEGATED = (
    r"https?://\S+|\b(no|0|zero|without)\b(?!\ (more\ |remaining\ )?quota\ (left|remaining))"
    r"((?!\b(because|due|since|as|but|while)\b)[^.,:;!?])*"
)
_WORD_ENDS = lazy_pattern(r"_|(?<=[a-z])(?=[A-Z])")
_HTTP_ERRORS = range(400, 600)
_SHOWN, _LONGEST = 80, 300
"""Maximum characters of a body, and of the API's own message, in an error."""
NO_RECORDS = "if this response means that there are no records, ignore it by a rule of the error handler"
"""Advice for an error that may be how the API reports an empty result."""


class OtherFormat(DecodeError):
    """The body has another format than the decoder's, as the HTML page of an outage or a login has."""


class ErrorInstead(TransientError):
    """The body is an error of the API instead of records, possibly in another format than the decoder's."""


def other_format(response: Response, expected: str, text: str, body: JsonValue) -> OtherFormat | ErrorInstead:
    """Return the error for a body in another format.

    expected: the format of the records. text: the start of the body. body: the body as JSON, None if it is not JSON.
    """
    request = response.request
    if reports_failure(body):
        return error_instead(response, expected, body, text)
    kind = response.headers.get("content-type", "no content type")
    # Masked before it is truncated: half a secret would not be found.
    return OtherFormat(
        f"{request} answered {response.status} with a body that is not {expected} ({kind}, it begins "
        f"{request.hide(text)[:_SHOWN]!r}), like the page of an outage. Try again later, or check the path and the "
        f"decoder; {NO_RECORDS}"
    )


def error_instead(response: Response, expected: str, body: JsonValue, text: str = "") -> ErrorInstead:
    """Return the error for a body that is an error of the API. text: that of the body, if it is not JSON."""
    request = response.request
    message = " ".join(request.hide(find_message(body) or text or canonical(body)).split())[:_LONGEST]
    return ErrorInstead(
        f"{request} answered {response.status}: {message}; found an error, expected {expected}. "
        f"Try again later; {NO_RECORDS}"
    )


def raise_on_outage(response: Response, body: JsonValue, where: Sequence[str]) -> None:
    """Raise ErrorInstead if a body, or an element of a streamed one, has no records and reports an outage.

    where: the path of the records.
    """
    if is_error_page(body, [where], first=True):
        expected = f"records at {' > '.join(where) or 'the top of the body'}"
        raise error_instead(response, expected, body)


def reports_failure(body: JsonValue) -> bool:
    """Whether the body, or an object around its content, has an error, or a status or message with words of failure.

    A missing path of the records is no failure: many APIs omit empty lists.
    """
    if type(body) is not dict:
        return False
    inner = (value.items() for name, value in body.items() if name.lower() in _CONTAINERS and type(value) is dict)
    return any(_is_failure(name.lower(), value) for name, value in chain(body.items(), *inner))


def reports_outage(body: JsonValue, where: Sequence[str]) -> bool:
    """Whether a body with an empty or missing list of records at `where` says that the records are unavailable.

    It does if there is an error or a message, at the top or around the list, whose words mean a temporary problem or
    one that a user must solve (a quota, an outage, a refusal), or such an error in an envelope beside the list. Errors
    with other words do not count: many APIs answer so to a search without results, or to a page after the last one. Nor
    does a status, which may be that of the requested object, such as a job.
    """
    if type(body) is str:
        return _mentions_outage(body)
    if any(map(has_outage, _objects(body, where))):
        return True
    fields = body.items() if type(body) is dict else ()
    envelopes = [value for name, value in fields if name.lower() in _ENVELOPES and type(value) is dict]
    errors = ([value for name, value in each.items() if name.lower() in _ERRORS] for each in envelopes)
    return any(map(_mentions_outage, chain.from_iterable(errors)))


def is_error_page(body: JsonValue, places: Sequence[Sequence[str]], *, first: bool) -> bool:
    """Whether a body reports a failure of the API, and has no records at any of `places`, their possible paths.

    On the first page of a slice, or if there is a list of nulls, only GraphQL errors and outages count; if there is an
    empty list, only outages: some APIs return an error message when there are no records. If the body is a list, for
    example of an archive's files, each element is checked as a body.
    """
    bodies = body if type(body) is list else [body]
    if not first and any(each is not None and type(each) in SCALARS for each in bodies):
        return True  # the previous pages were objects, or lists of objects
    values = [path(*where)(each) for each in bodies for where in places]
    if any(value is not None and not _is_empty(value) for value in values):
        return False
    if any(reports_outage(each, where) for each in bodies for where in places):
        return True
    if any(value is not None for value in values):
        return any(map(has_graphql_errors, bodies)) and [] not in values
    if first:
        return any(map(has_graphql_errors, bodies))
    # The root element of an XML document is checked like a body.
    around = chain(bodies, *(_objects(each, where) for each in bodies for where in places))
    return any(map(reports_failure, around)) or any(map(has_graphql_errors, bodies))


def _is_empty(value: JsonValue) -> bool:
    """Whether a list has no records: GraphQL returns nulls for records that it could not find."""
    return type(value) is list and all(element is None for element in value)


def is_error_record(records: Sequence[object], key_paths: Sequence[Sequence[str]]) -> bool:
    """Whether the only record of a page reports a failure of the API and has no field of the primary key."""
    if len(records) != 1 or not key_paths:
        return False
    record = records[0]
    return type(record) is dict and all(path(*key)(record) is None for key in key_paths) and reports_failure(record)


def _objects(body: JsonValue, where: Sequence[str]) -> Iterator[dict[str, JsonValue]]:
    """Yield the objects along a path."""
    for name in where:
        if type(body) is not dict:
            return
        yield body
        body = body.get(name)


def has_outage(around: dict[str, JsonValue]) -> bool:
    """Whether an object that is no entity has an error or message with words of an outage, see `reports_outage`."""
    fields = {name.lower(): value for name, value in around.items()}
    if not _ENTITY_FIELDS.isdisjoint(fields):
        return False
    done = any(fields.get(name) is True for name in _SUCCESSES) or str(fields.get("status")).lower() in _DONE
    looked_at = _ERRORS | _ERROR_TEXTS | (set() if done else _MESSAGES)
    return any(_mentions_outage(value) for name, value in fields.items() if name in looked_at)


def _has_words(alternatives: str, text: str) -> bool:
    return _pattern(rf"\b({alternatives})\b").search(_WORD_ENDS.sub(" ", text)) is not None


@cache
def _pattern(text: str) -> re.Pattern[str]:
    """A pattern, compiled on first use: most APIs never answer with such a body, and compiling takes 2 ms."""
    return re.compile(text, re.IGNORECASE | re.VERBOSE)


def _mentions_outage(value: JsonValue) -> bool:
    match value:
        case str():
            return _has_words(_OUTAGE_WORDS, _pattern(_NEGATED).sub(" ", _WORD_ENDS.sub(" ", value)))
        case list():
            return any(map(_mentions_outage, value))
        case dict():
            return any(map(_mentions_outage, value.values()))
        case _:
            return False


def has_graphql_errors(body: JsonValue) -> bool:
    """Whether the body has GraphQL errors, which are unambiguous: a list of errors that all have a message."""
    errors = body.get("errors") if type(body) is dict else None
    return type(errors) is list and bool(errors) and all(type(e) is dict and "message" in e for e in errors)


def partial_errors(response: Response) -> str:
    """Return a warning about a GraphQL response with errors beside its records; empty if there are none."""
    if response.is_stream or b'"errors"' not in response.bytes_without_records:
        return ""
    try:
        body = response.body_without_records()
    except (DecodeError, ValueError):
        return ""
    if not has_graphql_errors(body):
        return ""
    message = response.request.hide(find_message(body) or "no message")[:_LONGEST]
    return (
        f"{response.request} answered with records and errors: {message}; records and fields that the errors concern "
        "may be missing. If none may be, have the error handler fail or retry when the body has `errors`"
    )


def _is_failure(name: str, value: JsonValue) -> bool:
    if name in _ERRORS:
        return bool(value)
    if name in _SUCCESSES and value is False:
        return True
    if name in _OUTCOMES and type(value) is int:
        return value in _HTTP_ERRORS
    return name in _OUTCOMES | _TEXTS and type(value) is str and _has_words(_FAILURE_WORDS, value)
