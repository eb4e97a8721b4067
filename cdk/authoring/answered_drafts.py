"""Answered drafts: streams drafted from curl commands, with the API's own responses in place of guesses."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path

from msgspec.structs import replace

from cdk.authoring.candidates import cursor_candidates, key_candidates
from cdk.authoring.detection import Detection, NoRecords, detect_pages
from cdk.authoring.drafts.auth import Login, session_login
from cdk.authoring.drafts.curl import draft_of_curl, login_of_curl
from cdk.authoring.drafts.draft import (
    Draft,
    Guess,
    StreamDraft,
    examples_of,
    present,
    record_selector,
    stream_component,
)
from cdk.authoring.drafts.keys import IDS, primary_key
from cdk.authoring.drafts.manifest_text import manifest_text
from cdk.authoring.drafts.names import plain, resource
from cdk.base.errors import ConfigError, DecodeError
from cdk.base.records.inferred import inferred_schema
from cdk.base.run import one_run
from cdk.base.secret_masking import Secrets, secret_values
from cdk.base.secret_names import looks_secret
from cdk.base.values import JsonObject, JsonValue, Record, as_object, canonical, kinds_of, walk
from cdk.base.yaml_file import YamlFile
from cdk.declarative.manifest import Manifest
from cdk.declarative.model.context import Runtime
from cdk.declarative.source import ManifestSource
from cdk.engine.first_pages import first_records
from cdk.rest import Transport
from cdk.rest.http.authenticator import ignore
from cdk.testing.simulator.examples import example_of

_SHOWN = 3
"""The most fields that a message names."""
_SHORTEST = 8
"""Shorter secrets of a command would match inside unrelated names."""
_RETRIES = 3
"""Retries of a request that came too soon. A draft sends several requests at once; some APIs allow one a minute."""
_SERVER_ERRORS: Sequence[JsonValue] = [408, *range(500, 600)]
_PREVIEW = "`spark-cdk preview {}` shows the responses"


def draft_of_answers(
    *commands: str,
    beside: Mapping[str, JsonValue] | None = None,
    learn: Callable[[str], None] = ignore,
    transport: Transport | None = None,
) -> Draft:
    """Return the draft of command lines, with the records, pages, fields and keys found in the first responses.

    Sends up to about twenty requests for each GET command, but any other command only once, since it may write. Retries
    a GET that came too soon (429), after the wait that the API requests, or whose connection failed. If a response has
    no list that may hold records, its whole body is the record.
    beside: as for `draft_of_curl`. learn: called with each value of the commands that may be a secret, before the value
    is sent. transport: sends the requests; by default as streams send them.
    Raises what `draft_of_curl` and a request raise, and ConfigError: when a response is not JSON, has no valid records,
    or contains a secret of the command in place of a name.
    """
    draft = draft_of_curl(*commands, beside=beside, pages={})
    values = [*secret_values({"properties": draft.config.properties}, draft.config.values)]
    for value in values:
        learn(value)
    runtime, secrets = Runtime() if transport is None else Runtime(transport), Secrets(values, shortest=_SHORTEST)
    known, streams = dict(beside or {}), dict[str, StreamDraft]()
    if (login := login_of_curl(*commands)) is not None:
        login = _answered_login(draft, login, runtime)
        draft = draft_of_curl(*commands, beside=beside, pages={}, login=login)
    for command in dict.fromkeys(commands):
        if login_of_curl(command) is None:
            stream = _answered(draft, command, known, runtime, secrets, login=login)
            known[stream.name], streams[stream.name] = stream.component, stream
    return replace(draft, streams=list(streams.values()))


def _answered_login(draft: Draft, login: Login, runtime: Runtime) -> Login:
    """Return the login with the place and the life of the token in its response, after sending it once.

    Raises ConfigError: when the response has no token.
    """
    requester = dict(as_object(as_object(login.requester["authenticator"])["login_requester"]))
    alone = replace(draft, streams=[StreamDraft("login", stream_component("login", requester))])
    try:
        detect_pages(_source(alone, runtime), draft.config.values, "login", once=True)
        body: JsonValue = None
    except NoRecords as error:
        body = error.body
    fields = dict(walk(body))
    texts = [keys for keys, value in fields.items() if isinstance(value, str) and looks_secret(str(keys[-1]))]
    if not texts:
        raise ConfigError(
            f"found no token in the response to {requester['http_method']} {requester['path']}, expected a field such "
            "as `access_token`; draft without that command, and write an authenticator"
        )
    # A response may also have a refresh token.
    _, first = min(("refresh" in str(keys[-1]).lower(), number) for number, keys in enumerate(texts))
    path = [*map(str, texts[first])]
    seconds = next((value for keys, value in fields.items() if keys[-1:] == ("expires_in",)), None)
    return session_login(requester, path, *([f"PT{seconds}S"] if isinstance(seconds, int) else []))


def _answered(
    draft: Draft,
    command: str,
    beside: Mapping[str, JsonValue],
    runtime: Runtime,
    secrets: Secrets,
    *,
    login: Login | None,
) -> StreamDraft:
    """Return the stream of one command of a draft, after sending the command.

    secrets: must not appear in the stream. login: as for `draft_of_curl`.
    """
    (stream,) = draft_of_curl(command, beside=beside, pages={}, login=login).streams
    reads = as_object(as_object(stream.component["retriever"])["requester"])["http_method"] == "GET"
    try:
        alone = replace(draft, streams=[stream])
        detection = detect_pages(_source(alone, runtime), draft.config.values, stream.name, once=not reads)
    except NoRecords as error:
        detection = Detection((), [error.body], {}, (), (), decoder=error.decoder)
    except DecodeError as error:
        raise ConfigError(
            f"{error.message}; have the command request JSON, such as with -H 'Accept: application/json', or draft it "
            "without sending it"
        ) from error
    best = None if detection.best is None else detection.best.paginator
    pages = {} if best is None else {stream.name: best}
    (stream,) = draft_of_curl(command, beside=beside, pages=pages, login=login).streams
    retriever = {**as_object(stream.component["retriever"]), "record_selector": record_selector(detection.path)}
    component: JsonObject = {**stream.component, "retriever": present({**retriever, "decoder": detection.decoder})}
    paged = replace(draft, streams=[replace(stream, component=component)])
    records: Sequence[Record] = [dict(as_object(each)) for each in detection.records]
    if reads:
        with one_run():
            (reading,) = _source(paged, runtime).open(draft.config.values)
            records = first_records(reading)
    properties = inferred_schema(records)
    key = _key([stream.name, *detection.path[-1:], resource(stream.examples[0].path)], properties, records)
    schema: JsonObject = {"type": "object", "properties": properties}
    loader: JsonObject = {"type": "InlineSchemaLoader", "schema": schema}
    first, probe = stream.examples[0], None if best is None else best.probe
    component = present({**component, "primary_key": key, "schema_loader": loader})
    guesses = [*_page_guesses(stream.name, detection), *_field_guesses(records, key)]
    if secrets.holds("\n".join([canonical(component), *map(str, guesses)])):
        raise ConfigError(
            f"{stream.name}: found a secret of the command in the response, in the name of a field or a "
            "parameter, expected none in the manifest; draft it without sending the request"
        )
    return replace(
        stream,
        component=component,
        guesses=[*stream.guesses, *guesses],
        examples=examples_of(first.path, detection.path, example_of(schema), probe, first.method),
    )


def _source(draft: Draft, runtime: Runtime) -> ManifestSource:
    """Return the source of a one-stream draft. It retries when a request came too soon, but not after server errors."""
    (stream,) = draft.streams
    retriever = as_object(stream.component["retriever"])
    requester = as_object(retriever["requester"])
    fails: JsonObject = {"type": "HttpResponseFilter", "action": "FAIL", "http_codes": _SERVER_ERRORS}
    retries = _RETRIES if requester["http_method"] == "GET" else 0
    handler: JsonObject = {"type": "DefaultErrorHandler", "max_retries": retries, "response_filters": [fails]}
    requester = {**requester, "error_handler": handler}
    component = {**stream.component, "retriever": {**retriever, "requester": requester}}
    text = manifest_text(replace(draft, streams=[replace(stream, component=component)]))
    return ManifestSource(Manifest(YamlFile.parse(text, Path("manifest.yaml")).value), runtime)


def _key(names: Sequence[str], properties: Mapping[str, JsonValue], records: Sequence[Record]) -> str | None:
    """Return a field with a key's name and a different value in each record; None if there is none.

    names: what the records may be called.
    """
    candidates = key_candidates(records)
    kinds = {each: kinds_of(properties[each])[0] for each in candidates}
    if likely := next(filter(None, (primary_key(kinds, name, None) for name in names)), None):
        return likely[0]
    return next((each for each in candidates if plain(each) in IDS), None)


def _page_guesses(name: str, detection: Detection) -> Iterator[Guess]:
    where, check, best = " > ".join(detection.path), _PREVIEW.format(name), detection.best
    if detection.decoder is not None:
        inner = as_object(detection.decoder.get("decoder"))
        kinds = " with ".join(str(each["type"]) for each in (detection.decoder, inner) if each)
        yield Guess(f"decoder: {kinds}", "the first response is read by it", check)
    if detection.exchanges:
        what = f"at `{where}`" if where else "the elements of the body"
        others = "".join(f", and {count:,} objects at {other}" for other, count in detection.others.items())
        yield Guess(f"records: {what}", f"the response has {len(detection.records):,} there{others}", check)
    else:
        yield Guess("records: the whole body is one", "the response has no list of objects", check)
    if best is not None:
        yield Guess(best.guess.what, best.why, check)
        return
    count = len(detection.trials)
    tried = f"{count} ways were tried, and none returned other records" if count else ""
    check = f"`spark-cdk detect {name}` shows the result of each"
    if detection.doubt:
        untold = tried or "neither request nor response shows how to request the next page"
        text = "pagination is MISSING: only one of several pages is read"
        yield Guess(text, f"there is {detection.doubt}; {untold}", check)
    else:
        why = tried or "the response has nothing that leads to the next page"
        yield Guess("no pagination: one page is read", why, check)


def _field_guesses(records: Sequence[Record], key: str | None) -> Iterator[Guess]:
    count, check = f"of the first {len(records):,} records", "more records, or the API's documentation"
    text = f"schema: the types {'of the first record' if len(records) == 1 else count}"
    yield Guess(text, "no more were read", check)
    if len(records) == 1:
        yield Guess("no key", "of one record, each field is unique", check)
    elif key is None:
        yield Guess("no key", f"no field that is named like one has a different value in each {count}", check)
    else:
        yield Guess(f"primary key `{key}`", f"each {count} has a different value", check)
    missing = [name for name in dict.fromkeys(chain(*records)) if all(record.get(name) is None for record in records)]
    if names := ", ".join(f"`{name}`" for name in missing):
        yield Guess(f"not in the schema: {names}", f"null in all {len(records):,} records, so of no known type", check)
    if dates := ", ".join(f"`{name}`" for name in islice(cursor_candidates(records), _SHOWN)):
        why = f"the responses do not show whether the API filters by {dates}"
        yield Guess("no cursor: each sync reads all", why, "its documentation, then add an `incremental_sync`")
