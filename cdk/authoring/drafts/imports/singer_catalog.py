"""Drafts a manifest from a Singer tap's catalog: schemas, keys and cursors. A catalog does not describe requests."""

from collections.abc import Iterator, Mapping

from cdk.authoring.drafts.auth import bearer
from cdk.authoring.drafts.cursors import cursor_of, first_cursor_value
from cdk.authoring.drafts.draft import (
    ConfigFields,
    Draft,
    Guess,
    LeftOut,
    StreamDraft,
    check_levels,
    examples_of,
    stream_component,
)
from cdk.authoring.drafts.names import snake, words
from cdk.base.errors import ConfigError
from cdk.base.secret_names import looks_secret
from cdk.base.values import JsonObject, JsonValue, as_list, as_object, as_string, kinds_of, scalar_type
from cdk.testing.simulator.examples import example_of

_TAP = "the tap's code determines it; a catalog does not"


def draft_of_singer(catalog: JsonValue, settings: JsonValue, name: str) -> Draft:
    """Return the draft of a catalog. settings: of the tap; their names and types become config, their values do not.

    name: of the catalog's file. Raises ConfigError: when it has no streams.
    """
    check_levels(catalog, name)
    streams = [each for each in map(as_object, as_list(as_object(catalog).get("streams"))) if _name(each)]
    if not streams:
        raise ConfigError("found no stream, expected a catalog of Singer, an object with `streams`", path=name)
    config, left_out = ConfigFields(), list[LeftOut]()
    base: JsonObject = {"type": "string", "title": "where the API is, such as https://api.example.com"}
    url = config.add("base_url", base, "https://api.example.com")
    requester: JsonObject = {"type": "HttpRequester", "url_base": url}
    guesses = [
        Guess("requests: a GET of each stream's name below `base_url`, and no pagination", "a catalog has none", _TAP)
    ]
    secrets = [key for key in as_object(settings) if looks_secret(key)]
    token = next((key for key in secrets if words(key)[-1:] in (["token"], ["key"])), None)
    if token is not None:
        requester["authenticator"] = bearer(config)
        guesses.append(Guess(f"log-in: `{token}` in the header `Authorization`, as `Bearer`", "its name", _TAP))
    for key, value in as_object(settings).items():
        if key not in {token, "base_url", "start_date"}:
            left_out.append(LeftOut(f"config.{key}", "the spec has it, and no request uses it yet"))
            schema: JsonObject = {"type": scalar_type(value), "title": key}
            config.add(snake(key), {**schema, "airbyte_secret": True} if key in secrets else schema)
    drafts = [_stream(each, config, left_out) for each in streams]
    return Draft(f"the Singer catalog {name}", requester, drafts, config, guesses, left_out)


def _name(stream: Mapping[str, JsonValue]) -> str:
    return as_string(stream.get("stream")) or as_string(stream.get("tap_stream_id"))


def _stream(stream: Mapping[str, JsonValue], config: ConfigFields, left_out: list[LeftOut]) -> StreamDraft:
    name, facts = snake(_name(stream)), _metadata(stream)
    schema: JsonObject = {"type": "object", **as_object(stream.get("schema"))}
    properties = {key: as_object(value) for key, value in as_object(schema.get("properties")).items()}
    requester: JsonObject = {"$ref": "#/definitions/requester", "path": f"/{_name(stream)}"}
    guesses: list[Guess] = []
    cursor: JsonObject | None = None
    keys = [*map(as_string, as_list(stream.get("key_properties")) or as_list(facts.get("table-key-properties")))]
    record = dict(as_object(example_of(schema)))
    valid = [*map(as_string, as_list(facts.get("valid-replication-keys")))]
    chosen = as_string(stream.get("replication_key")) or as_string(facts.get("replication-key"))
    if field := chosen or (valid or [""])[0]:
        numeric = {"integer", "number"} & {*_types(properties.get(field, {}))}
        cursor, guess = cursor_of(field, 0 if numeric else None, {}, config, name)
        record = {**record, field: first_cursor_value(cursor, config, name)}
        guesses.append(guess)
    method = as_string(stream.get("replication_method")) or as_string(facts.get("forced-replication-method"))
    if method == "LOG_BASED":
        left_out.append(LeftOut(f"streams.{name}.replication_method", "LOG_BASED reads a database's log, no HTTP API"))
    if facts.get("selected") is False:
        guesses.append(Guess("not selected", "the catalog says so", "leave it out of the pipeline's `streams`"))
    unread = "it is not selected, but read anyway: add `RemoveFields`"
    left_out += [LeftOut(f"streams.{name}.{key}", unread) for key in _deselected(stream)]
    key: JsonValue = keys[0] if len(keys) == 1 else keys or None
    component = stream_component(name, requester, schema=schema, key=key, cursor=cursor)
    return StreamDraft(name, component, guesses, examples_of(f"/{_name(stream)}", (), record or {"id": "1"}, None))


def _types(schema: Mapping[str, JsonValue]) -> Iterator[str]:
    """Yield the types that a property may have, including those of `anyOf`, which taps write."""
    yield from kinds_of(schema)
    for each in as_list(schema.get("anyOf")):
        yield from _types(as_object(each))


def _metadata(stream: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    """Return the catalog's metadata on a stream as a whole."""
    entries = map(as_object, as_list(stream.get("metadata")))
    return as_object(next((each.get("metadata") for each in entries if not as_list(each.get("breadcrumb"))), None))


def _deselected(stream: Mapping[str, JsonValue]) -> Iterator[str]:
    """Yield the properties that the user has deselected."""
    for entry in map(as_object, as_list(stream.get("metadata"))):
        path = [*map(as_string, as_list(entry.get("breadcrumb")))]
        if len(path) > 1 and as_object(entry.get("metadata")).get("selected") is False:
            yield ".".join(path[1::2])
