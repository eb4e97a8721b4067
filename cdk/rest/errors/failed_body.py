"""Whether a body in which no records lie says that the API failed, though its status is that of a success."""

import re
from collections.abc import Iterator, Sequence
from itertools import chain

from cdk.base.errors import DecodeError, TransientError
from cdk.base.values import SCALARS, JsonValue, canonical
from cdk.rest.errors.api_message import find_message
from cdk.rest.http.json_path import path
from cdk.rest.http.messages import Response

_ERRORS = {
    *("error", "errors", "failure", "failures", "err", "fault", "exception"),
    *("error_message", "errormessage", "error_msg", "errormsg", "err_msg", "exception_message", "exceptionmessage"),
}
"""Fields that are about nothing else than what went wrong."""

_SUCCESSES = {"success", "successful", "succeeded", "ok"}

_OUTCOMES = {"status", "state", "result", "outcome", "code", "status_code", "statuscode", "error_code", "errorcode"}
_TEXTS = {"message", "msg", "detail", "reason", "title", "type"}

_ERROR_TEXTS = {"error_description", "error_detail", "error_code", "errorcode", "error_type", "error_reason"}
_MESSAGES = {"message", "msg", "detail", "details"}
_ENVELOPES = {"meta", "metadata", "response", "result", "header"}
"""Objects beside the records that are about the response."""
_AROUND = _ENVELOPES | {"data"}
_OWN = {"id", "uuid", "sha"}
"""What an object has that is something itself, such as a job: its errors and messages are its own."""
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
_OUTAGE = re.compile(rf"\b({_OUTAGE_WORDS})\b", re.IGNORECASE | re.VERBOSE)
_FAILED = re.compile(
    rf"\b(errors?|err|fail(ed|ure|s)?|faults?|exception|too[ _-]many|limit[ _-](limit\w*|exceeded|reached)|exceeded|"
    rf"rate[ _-](exceeded|reached)|{_OUTAGE_WORDS})\b",
    re.IGNORECASE | re.VERBOSE,
)
# `No expired vouchers` denies what it says, up to its end; `no quota left` does not.
_DENIED = re.compile(
    r"https?://\S+|\b(no|0|zero|without)\b(?! (more |remaining )?quota (left|remaining))"
    r"((?!\b(because|due|since|as|but|while)\b)[^.,:;!?])*",
    re.IGNORECASE,
)
_WORD_ENDS = re.compile(r"_|(?<=[a-z])(?=[A-Z])")
_HTTP_ERRORS = range(400, 600)
_SHOWN, _LONGEST = 80, 300
"""Characters of a body, and of the API's own words, in a message."""
_IGNORE = "if the API has no records then, ignore the response by a rule of the error handler"


class OtherFormat(DecodeError):
    """The body is in another format than the decoder's, as the page of an outage or of a login is."""


class ErrorInstead(TransientError):
    """The body is an error of the API, in another format than the decoder's."""


def other_format(response: Response, expected: str, text: str, body: JsonValue) -> OtherFormat | ErrorInstead:
    """The error for a body in another format.

    expected: the format of the records. text: how the body begins. body: what it is as JSON, None if it is none.
    """
    request = response.request
    if says_failed(body):
        return error_instead(response, expected, body, text)
    kind = response.headers.get("content-type", "no content type")
    # Hidden before it is cut: half a secret would not be found.
    return OtherFormat(
        f"{request} answered {response.status} with a body that is not {expected} ({kind}, it begins "
        f"{request.hide(text)[:_SHOWN]!r}), as the page of an outage is. Try again later, or check the path and the "
        f"decoder; {_IGNORE}"
    )


def error_instead(response: Response, expected: str, body: JsonValue, text: str = "") -> ErrorInstead:
    """The error for one that the API gives where something else was expected. text: of the body, if it is no JSON."""
    request = response.request
    message = " ".join(request.hide(find_message(body) or text or canonical(body)).split())[:_LONGEST]
    return ErrorInstead(
        f"{request} answered {response.status}: {message}; found an error, expected {expected}. "
        f"Try again later; {_IGNORE}"
    )


def refuse_outage(response: Response, body: JsonValue, where: Sequence[str]) -> None:
    """Raise ErrorInstead: a body, or an element of one that is read as it arrives, has no records and says an outage.

    where: the place of the records.
    """
    if is_error_page(body, [where], first=True):
        expected = f"records at {' > '.join(where) or 'the top of the body'}"
        raise error_instead(response, expected, body)


def says_failed(body: JsonValue) -> bool:
    """Whether the body, or what it has around its content, has an error, or words of a failure as status or message.

    That the records' place is missing is none: many APIs leave out what is empty.
    """
    if type(body) is not dict:
        return False
    inner = (value.items() for name, value in body.items() if name.lower() in _AROUND and type(value) is dict)
    return any(_is_failure(name.lower(), value) for name, value in chain(body.items(), *inner))


def says_outage(body: JsonValue, where: Sequence[str]) -> bool:
    """Whether a body with an empty list of records at `where`, or with none, says that they could not be had.

    It has an error or a message, at the top or around the list, with words of what passes or a person must look at:
    a quota, an outage, a refusal; or an error in what is about the response, beside the list. An error with other words
    is none, for so do many APIs answer a search that finds nothing, or a page behind the last. Nor is a status: it may
    be that of what was asked for, such as a job's.
    """
    if type(body) is str:
        return _tells_outage(body)
    if any(map(has_outage, _objects(body, where))):
        return True
    fields = body.items() if type(body) is dict else ()
    envelopes = [value for name, value in fields if name.lower() in _ENVELOPES and type(value) is dict]
    errors = ([value for name, value in each.items() if name.lower() in _ERRORS] for each in envelopes)
    return any(map(_tells_outage, chain.from_iterable(errors)))


def is_error_page(body: JsonValue, places: Sequence[Sequence[str]], *, first: bool) -> bool:
    """Whether a body says that the API failed, and has no records at any of the places where they may lie.

    Of the first page of a slice, and where an empty list is there, only errors of GraphQL and what says an outage
    count: some APIs have a message of an error where there is nothing. Of a list, as of the files of an archive, each
    element is a body.
    """
    bodies = body if type(body) is list else [body]
    if not first and any(each is not None and type(each) in SCALARS for each in bodies):
        return True  # the pages before were objects, or lists of such
    values = [path(*where)(each) for each in bodies for where in places]
    if any(value is not None and not _is_empty(value) for value in values):
        return False
    if any(says_outage(each, where) for each in bodies for where in places):
        return True
    if any(value is not None for value in values):
        return any(map(has_graphql_errors, bodies)) and [] not in values
    if first:
        return any(map(has_graphql_errors, bodies))
    # The element around all of an XML document is no more than a body.
    around = chain(bodies, *(_objects(each, where) for each in bodies for where in places))
    return any(map(says_failed, around)) or any(map(has_graphql_errors, bodies))


def _is_empty(value: JsonValue) -> bool:
    """Whether a value holds no record: GraphQL has nulls for those that it failed to find."""
    return type(value) is list and all(element is None for element in value)


def is_error_record(records: Sequence[object], key_paths: Sequence[Sequence[str]]) -> bool:
    """Whether the only record of a page says that the API failed, and has nothing of the primary key."""
    if len(records) != 1 or not key_paths:
        return False
    record = records[0]
    return type(record) is dict and all(path(*key)(record) is None for key in key_paths) and says_failed(record)


def _objects(body: JsonValue, where: Sequence[str]) -> Iterator[dict[str, JsonValue]]:
    """The objects on the way to a place."""
    for name in where:
        if type(body) is not dict:
            return
        yield body
        body = body.get(name)


def has_outage(around: dict[str, JsonValue]) -> bool:
    """Whether an object that is nothing itself has an error or a message with words of an outage, see `says_outage`."""
    fields = {name.lower(): value for name, value in around.items()}
    if not _OWN.isdisjoint(fields):
        return False
    done = any(fields.get(name) is True for name in _SUCCESSES) or str(fields.get("status")).lower() in _DONE
    looked_at = _ERRORS | _ERROR_TEXTS | (set() if done else _MESSAGES)
    return any(_tells_outage(value) for name, value in fields.items() if name in looked_at)


def _tells_outage(value: JsonValue) -> bool:
    match value:
        case str():
            return _OUTAGE.search(_DENIED.sub(" ", _WORD_ENDS.sub(" ", value))) is not None
        case list():
            return any(map(_tells_outage, value))
        case dict():
            return any(map(_tells_outage, value.values()))
        case _:
            return False


def has_graphql_errors(body: JsonValue) -> bool:
    """Whether the body says so as GraphQL does, where nothing else means that: a list of errors with their messages."""
    errors = body.get("errors") if type(body) is dict else None
    return type(errors) is list and bool(errors) and all(type(e) is dict and "message" in e for e in errors)


def partial_errors(response: Response) -> str:
    """What to say of a GraphQL response that has errors beside its records; empty for nothing."""
    if response.is_stream or b'"errors"' not in response.frame_text:
        return ""
    try:
        body = response.frame()
    except (DecodeError, ValueError):
        return ""
    if not has_graphql_errors(body):
        return ""
    message = response.request.hide(find_message(body) or "no message")[:_LONGEST]
    return (
        f"{response.request} answered with records and errors: {message}; what these are about may be missing, records "
        "and fields. If it must not be, have the error handler fail or retry where the body has `errors`"
    )


def _is_failure(name: str, value: JsonValue) -> bool:
    if name in _ERRORS:
        return bool(value)
    if name in _SUCCESSES and value is False:
        return True
    if name in _OUTCOMES and type(value) is int:
        return value in _HTTP_ERRORS
    return name in _OUTCOMES | _TEXTS and type(value) is str and _FAILED.search(_WORD_ENDS.sub(" ", value)) is not None
