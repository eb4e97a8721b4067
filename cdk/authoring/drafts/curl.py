"""Drafts a stream from a curl command line. Whatever may be a secret in it becomes config, and is written nowhere.

Values count as secrets if a name or the value suggests it: headers that are not well known, user and password,
cookies, parameters and fields with a secret's name, and values that look random.
"""

import re
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import count
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit
from uuid import UUID

from msgspec.structs import replace

from cdk.authoring.drafts.auth import Login, authenticator_of_header, basic, bearer, session_login
from cdk.authoring.drafts.curl_command import curl_options
from cdk.authoring.drafts.draft import (
    ConfigFields,
    Draft,
    Guess,
    Parameter,
    StreamDraft,
    check_levels,
    examples_of,
    expression,
    known_parameters,
    stream_component,
)
from cdk.authoring.drafts.manifest_text import Read, has_marks, in_field, in_json, in_path, written
from cdk.authoring.drafts.names import snake, words
from cdk.authoring.drafts.pagination import PageFacts, PaginatorGuess, guess_paginator
from cdk.base.errors import ConfigError
from cdk.base.secret_names import looks_secret
from cdk.base.values import JsonObject, JsonValue, as_object, as_string, from_json, scalar_type

_BROWSER_HEADERS = re.compile(
    r"accept-(?:encoding|language|charset)|user-agent|sec-.*|origin|referer|dnt|connection|priority|cache-control"
    r"|pragma|te|host|content-.*|if-.*|upgrade-.*|x-requested-with",
    re.IGNORECASE,
)
_OPAQUE = re.compile(r"(?=[^0-9]*[0-9])(?=[^A-Za-z]*[A-Za-z])[A-Za-z0-9_\-.=+/~:]{16,}")
_FORMAT = re.compile(r"(?<=.)\.(?:json|xml|csv)$")
_ID = re.compile(r"\d+|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?!\d)")
_ACCEPTED = re.compile(r"(?!text/html|\*/\*)[\w.+*/;=, -]+")
"""Accept headers to keep: APIs select versions by them. Browsers, in contrast, accept pages and `*/*`."""

_PREVIEW = "`spark-cdk preview {}` shows the response"
_NO_PAGES = PaginatorGuess(None, None)
_LOGINS = {"token", "tokens", "login", "signin", "auth", "authenticate", "oauth", "session", "sessions"}
"""Words in the last segment of paths that return a token for credentials."""


def draft_of_curl(
    *commands: str,
    beside: Mapping[str, JsonValue] | None = None,
    pages: Mapping[str, PaginatorGuess] | None = None,
    login: Login | None = None,
) -> Draft:
    """Return the draft of streams that send the requests of the command lines.

    A command that requests a token is the login of the others, unless these have credentials of another kind.
    beside: the existing streams, by name; a new stream whose name belongs to a different request gets another name.
    pages: paginators by stream name, for callers that examine responses (`cdk.authoring.answered_drafts`). Without it,
    paginators are guessed, and unknown facts about the responses are listed as guesses, too. login: replaces the one
    that the commands suggest.

    Raises ConfigError: when a command is not a curl command, does what no stream can, or all of them request tokens.
    The message has no values.
    """
    known, config = dict(beside or {}), ConfigFields()
    requests = [curl_options(command) for command in commands]
    tokens = [request for request in map(_Request, requests) if request.requests_token]
    login = login or login_of_curl(*commands) or Login({})
    streams: dict[str, StreamDraft] = {}
    for options in requests:
        if not _Request(options).requests_token:
            stream, fields = _stream(options, known, pages, login)
            known[stream.name], streams[stream.name] = stream.component, stream
            config.include(fields)
    if not streams:
        raise ConfigError(
            "the curl command requests a token, and no records: pass the command that reads records, too, "
            "by another --from-curl"
        )
    guesses = [*login.guesses]
    for token in tokens:
        config.include(token.config)
        guesses += token.credentials_guesses()
    return Draft("a curl command", {}, list(streams.values()), config, guesses, examples=login.examples, adds=True)


def login_of_curl(*commands: str) -> Login | None:
    """Return the login by the first command that requests a token; None if none does. Raises as `draft_of_curl`."""
    for request in map(_Request, map(curl_options, commands)):
        if request.requests_token:
            return session_login(request.requester, ["access_token" if "grant_type" in request.body else "token"])
    return None


def _stream(
    options: Namespace, beside: Mapping[str, JsonValue], pages: Mapping[str, PaginatorGuess] | None, login: Login
) -> tuple[StreamDraft, ConfigFields]:
    """Return the stream of a request, and its config. Raises ConfigError: when the command does what no stream can.

    pages: as for `draft_of_curl`.
    """
    complete = _Request(options, login=login)
    name = next(each for each in _names(complete.path, complete.host) if _is_free(each, options, beside, login))
    paginator = guess_paginator(complete.facts(name)) if pages is None else pages.get(name, _NO_PAGES)
    request = _Request(options, paginator, login)
    return request.stream(name, guesses_response=pages is None), request.config


def _is_free(name: str, options: Namespace, beside: Mapping[str, JsonValue], login: Login) -> bool:
    """Whether the name is unused, or its stream sends the same request."""
    retriever = as_object(as_object(beside.get(name)).get("retriever"))
    paginator = as_object(retriever.get("paginator"))
    parts = (as_object(paginator.get(key)) for key in ("page_token_option", "page_size_option"))
    # The command line may contain parameters that the paginator sends.
    paged = {as_string(option.get("field_name")) for option in parts}
    own = _Request(options, replace(_NO_PAGES, handled=frozenset(paged)), login).requester
    return name not in beside or own == retriever.get("requester")


class _Request:
    """A request as a stream sends it. pages: its paginator sends some parameters, which the requester then omits.

    login: replaces a bearer token of the command.
    """

    def __init__(self, options: Namespace, pages: PaginatorGuess = _NO_PAGES, login: Login | None = None) -> None:
        self._options, self._pages, self.config = options, pages, ConfigFields()
        self._session = {} if login is None else login.requester
        self._secrets: list[str] = []
        self._parameters: dict[str, Parameter] = {}
        url, data = self._url(), options.data
        self.host, self.path = url.hostname or "", [unquote(part) for part in url.path.split("/") if part]
        self.requester: JsonObject = {"type": "HttpRequester"}
        self._login(url)
        in_query = data if options.get else []
        query = _once(pair for text in (url.query, *in_query) for pair in parse_qsl(text, keep_blank_values=True))
        # Not decoded: `group%2Fproject` is one part of a path.
        path = [self._value("path", part, in_path) for part in (url.path or "/").split("/")]
        self.requester |= {
            "url_base": f"{url.scheme}://{url.netloc.rpartition('@')[2]}",
            "path": "/".join(path),
            "http_method": (options.method or ("POST" if data and not options.get else "GET")).upper(),
        }
        if parameters := self._fields("query", query):
            self.requester["request_parameters"] = parameters
        if headers := self._headers():
            self.requester["request_headers"] = headers
        if any(data) and not options.get:
            self.requester["request_body"] = self._body("&".join(data))

    @property
    def body(self) -> Mapping[str, JsonValue]:
        """The fields of its JSON or its form; empty without any."""
        return as_object(as_object(self.requester.get("request_body")).get("value"))

    @property
    def requests_token(self) -> bool:
        """Whether it returns a token for credentials: because of a `grant_type`, or of its path and a secret in it."""
        named = bool(self._secrets) and not _LOGINS.isdisjoint(words("".join(self.path[-1:])))
        return self.requester["http_method"] == "POST" and ("grant_type" in self.body or (named and bool(self.body)))

    def credentials_guesses(self) -> Sequence[Guess]:
        """Return the guess that some values of the command are secrets."""
        if not self._secrets:
            return []
        names = ", ".join(f"`{each}`" for each in self._secrets)
        why = f"they may be secrets, so their values are written nowhere: put {names} into config.json"
        return [Guess("credentials are config", why, "variables such as `${API_KEY}` there come from `.env`")]

    def facts(self, stream: str) -> PageFacts:
        """Return the known facts about its pagination."""
        return PageFacts(stream, self._parameters, {}, {}, "", None)

    def _rest(self, location: str, values: Mapping[str, JsonValue]) -> tuple[JsonObject, Mapping[str, str]]:
        """Split a part of the request into what the paginator does not send, and what is always sent in its place."""
        self._parameters = {**known_parameters(values, location), **self._parameters}
        own = {name for name, each in self._parameters.items() if each.location == location}
        rest = {name: value for name, value in values.items() if name not in own & self._pages.handled}
        return rest, {name: value for name, value in self._pages.always.items() if name in own}

    def _fields(self, location: str, texts: Mapping[str, str]) -> JsonObject:
        """Return the query parameters, or the fields of a form, for a requester."""
        rest, always = self._rest(location, texts)
        return {**{_key(name): self._value(name, str(value), in_field) for name, value in rest.items()}, **always}

    def stream(self, name: str, *, guesses_response: bool) -> StreamDraft:
        """Return the stream, under this name."""
        unknown = "a command line does not describe the response"
        check = _PREVIEW.format(name)
        known = []
        if guesses_response:
            known += [
                Guess("records: the body, or its elements", unknown, check),
                Guess("no schema and no key", unknown, check),
            ]
        known += [*self.credentials_guesses(), *self._fixed_guesses()]
        pages = self._pages
        path = re.sub(r"\{\{.*?\}\}", "*", str(self.requester["path"]))
        examples = examples_of(path, (), {"id": "1"}, pages.probe, str(self.requester["http_method"]))
        component = stream_component(name, self.requester, paginator=pages.component)
        paging = [pages.guess] if pages.guess is not None and guesses_response else []
        return StreamDraft(name, component, [*known, *paging], examples)

    def _fixed_guesses(self) -> Iterator[Guess]:
        """Yield guesses about values copied from the command that might vary between requests."""
        for part in str(self.requester["path"]).split("/"):
            if _ID.fullmatch(part):
                why = "the command has it, so only that is read"
                check = "if it is the id of a record, a SubstreamPartitionRouter reads the path of each"
                yield Guess(f"`{part}` in the path is fixed", why, check)
        for name, value in as_object(self.requester.get("request_parameters")).items():
            if isinstance(value, str) and _DATE.match(value):
                why = f"it is {value} in the command"
                check = "if it filters records, an `incremental_sync` with it as `start_time_option` reads what is new"
                yield Guess(f"`{name}` is sent as it is", why, check)

    def _url(self) -> SplitResult:
        urls = [*self._options.urls, *([self._options.url] if self._options.url else [])]
        if len(urls) != 1:
            behind = "; remove what follows the command, such as `| jq`" if "|" in urls else ""
            raise ConfigError(f"found {len(urls)} URLs in the curl command, expected one{behind}")
        text = urls[0] if "://" in urls[0] else f"https://{urls[0]}"
        try:
            url = urlsplit(text)
            if url.scheme in {"http", "https"} and url.hostname:
                return url
        except ValueError:
            pass
        raise ConfigError("the URL of the curl command is invalid, expected one such as https://api.example.com/orders")

    def _login(self, url: SplitResult) -> None:
        """Set the authenticator from the first login in the command: user, bearer token, or Authorization header."""
        headers = {name.lower(): value for name, value in map(_header, self._options.headers)}
        authorization = headers.get("authorization", "")
        if self._options.user or url.username:
            of_url = f"{unquote(url.username or '')}:{unquote(url.password or '')}"
            self.requester["authenticator"] = basic(self.config, self._options.user or of_url)
        elif self._session and (authorization or "bearer").lower().startswith("bearer"):
            self.requester |= self._session
        elif self._options.bearer:
            self.requester["authenticator"] = bearer(self.config, self._options.bearer)
        elif authorization:
            self.requester["authenticator"] = authenticator_of_header(authorization, self.config)
        self._secrets += self.config.properties

    def _headers(self) -> JsonObject:
        headers: JsonObject = {}
        for text in self._options.headers:
            name, value = _header(text)
            if name.lower() == "authorization" or _BROWSER_HEADERS.fullmatch(name) or not value:
                continue
            if name.lower() != "accept":
                headers[_key(name)] = self._secret(name, value, in_field)
            elif _ACCEPTED.fullmatch(value):
                headers[name] = written(value, in_field)
        if self._options.cookie and "=" in self._options.cookie:
            headers["Cookie"] = self._secret("cookie", self._options.cookie, in_field)
        return headers

    def _body(self, text: str) -> JsonObject:
        """Return the body: JSON, or a form. Raises ConfigError: when it is neither."""
        try:
            document = from_json(text)
        except ValueError:
            fields = parse_qsl(text, keep_blank_values=True) if "=" in text else []
            if not fields:
                raise ConfigError("the data of the curl command is neither a JSON object nor a form") from None
            return {"type": "RequestBodyUrlEncodedForm", "value": self._fields("body_data", _once(fields))}
        if not isinstance(document, Mapping):
            raise ConfigError("the data of the curl command is JSON, expected an object")
        check_levels(document, "the data of the curl command")
        rest, always = self._rest("body_json", document)
        # The manifest language omits an empty object, but sends one that is a string.
        numbers: JsonObject = {name: int(value) for name, value in always.items()}
        value = self._nested("", {**rest, **numbers}) if document else written("{}", in_json)
        return {"type": "RequestBodyJsonObject", "value": value}

    def _nested(self, name: str, value: JsonValue) -> JsonValue:
        """Return a part of a JSON body; an object that the language would not send unchanged becomes an expression."""
        match value:
            case dict() if any(part is None or _is_interpreted(key) for key, part in value.items()):
                return expression(self._source(name, value))
            case dict():
                return {key: self._nested(key, part) for key, part in value.items()}
            case list():
                return [self._nested(name, part) for part in value]
            case str():
                return self._value(name, value, in_json)
            case int() | float() if looks_secret(name) and not isinstance(value, bool):
                return self._secret(name, value, in_json)
            case _:
                return value

    def _source(self, name: str, value: JsonValue) -> str:
        """Return the value's source inside an expression, where a string cannot be read as another literal."""
        match value:
            case dict():
                return f"{{{', '.join(f'{key!r}: {self._source(key, part)}' for key, part in value.items())}}}"
            case list():
                return f"[{', '.join(self._source(name, part) for part in value)}]"
            case str() if looks_secret(name) or _looks_random(value):
                return self._field(name, value)
            case int() | float() if looks_secret(name) and not isinstance(value, bool):
                return self._field(name, value)
            case _:
                return repr(value)

    def _value(self, name: str, value: str, read: Read) -> str:
        """Return the manifest's text for a string: the string itself, or the expression of a secret."""
        return self._secret(name, value, read) if looks_secret(name) or _looks_random(value) else written(value, read)

    def _secret(self, name: str, value: JsonValue, read: Read) -> str:
        """Return the expression that reads a secret from the config and sends it unchanged."""
        source = self._field(name, value)
        # In JSON the type matters: another password may look like a number.
        sources = [source, f"{source} | tojson"]
        ordered = sources[::-1] if read is in_json and isinstance(value, str) else sources
        names = {"config": self.config.values}
        return next((text for text in map(expression, ordered) if read(text, names) == value), expression(source))

    def _field(self, name: str, value: JsonValue) -> str:
        """Add a config property for a secret, one for each place where it occurs; return the expression's source."""
        own, number = snake(name), 1
        while own in self.config.properties:
            number += 1
            own = f"{snake(name)}_{number}"
        self._secrets.append(own)
        self.config.add(own, {"type": scalar_type(value), "title": name, "airbyte_secret": True}, value=value)
        return f"config['{own}']"


def _key(name: str) -> str:
    """Return the name of a parameter or header as a manifest writes it."""
    return expression(repr(name)) if _is_interpreted(name) else name


def _is_interpreted(name: str) -> bool:
    """Whether the language would interpret a name: as an expression, or as a keyword such as `$ref`."""
    return has_marks(name) or name.startswith("$")


def _names(path: Sequence[str], host: str) -> Iterator[str]:
    """Yield names for a stream: the last path segments that are not ids, more and more of them; then numbered ones."""
    called = [_FORMAT.sub("", part) for part in path if not _looks_random(part) and not part.isdigit()] or [host]
    for number in range(1, len(called) + 1):
        yield snake("_".join(called[-number:]))
    for number in count(2):
        yield f"{snake(called[-1])}_{number}"


def _once(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return parameters by name. Raises ConfigError: when one occurs more than once."""
    listed = list(pairs)
    counts = Counter(name for name, _ in listed)
    if again := ["****" if _looks_random(name) else name for name, count in counts.items() if count > 1]:
        raise ConfigError(
            f"found the parameters {', '.join(again)} several times in the curl command, expected each once; "
            "leave the others out"
        )
    return dict(listed)


def _header(text: str) -> tuple[str, str]:
    name, _, value = text.partition(":")
    return name.strip(), value.strip()


def _looks_random(value: str) -> bool:
    """Whether a value, possibly escaped as in a URL, looks like a secret: letters and digits, no date, URL or UUID."""
    value = unquote(value)
    if _OPAQUE.fullmatch(value) is None or "://" in value:
        return False
    for kind in (datetime.fromisoformat, UUID):
        try:
            kind(value)
        except ValueError:
            continue
        return False
    return True
