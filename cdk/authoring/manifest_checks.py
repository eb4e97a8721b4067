"""Mistakes that a manifest's schema permits: expressions that do not parse, unknown config keys, missing streams.

Also fields that have no effect where they are, or have records come repeatedly.

Imports the manifest language, and with it Jinja.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from jinja2 import nodes
from msgspec import Struct

from cdk.base.errors import CdkError, ManifestError
from cdk.base.times.clock import format_problem
from cdk.base.times.iso_durations import parse_duration
from cdk.base.values import (
    JsonSchema,
    JsonValue,
    Keys,
    Location,
    as_list,
    as_object,
    as_string,
    branches_of,
    canonical,
    properties_of,
)
from cdk.base.wording import did_you_mean, first_few
from cdk.declarative.interpolation.build import build
from cdk.declarative.interpolation.environment import environment
from cdk.declarative.interpolation.errors import ExpressionError
from cdk.declarative.interpolation.template import has_expression
from cdk.declarative.manifest import Manifest
from cdk.declarative.model.component import Component
from cdk.declarative.model.field_shapes import fields_of, open_to_more
from cdk.declarative.reading.schema_file import named_file, read_schema
from cdk.lake.arrow.json_schema import schema_mistakes

# fmt: off
_PLAIN = frozenset({
    "$parameters", "advanced_auth", "connection_specification", "definitions", "description",
    "documentation_url", "metadata", "schema", "schemas",
})
# fmt: on
"""Fields in which expressions are not evaluated."""


def manifest_mistakes(path: Path, schema: JsonSchema) -> Iterator[tuple[str, Location, bool]]:
    """Yield the mistakes in a manifest, each with its place and whether it is certain. schema: of its config.

    Undefined variables are logged as warnings.
    """
    try:
        manifest = Manifest.load(path)
        value = manifest.resolved()
    except ManifestError:
        # Building the source reports this error.
        return
    reported: set[tuple[int | None, str]] = set()
    mistakes = (
        _expressions(manifest, value, schema),
        _missing_streams(value),
        _unfollowed(value),
        _repeating(value),
        _values(value),
        _schemas(value, path.resolve().parent),
        _undeclared(value),
    )
    for keys, text, certain in chain.from_iterable(mistakes):
        # A part that several references share is written only once, so it is reported only once.
        location = manifest.where(keys)
        if (location.line, text) not in reported:
            reported.add((location.line, text))
            yield text, location, certain


def _expressions(manifest: Manifest, value: JsonValue, schema: JsonSchema) -> Iterator[tuple[Keys, str, bool]]:
    changed = "config_normalization_rules" in as_object(as_object(value).get("spec"))
    logged: set[tuple[int | None, str]] = set()
    for keys, text, parameters in _texts(value, (), None):
        location = manifest.where(keys)
        try:
            build(text, "" if (location.line, text) in logged else location, parameters)
        except ExpressionError as error:
            # A stream that uses a removed variable of the language fails alone, as it always has.
            yield keys, error.message, not error.why.startswith("`stream_state`")
            continue
        logged.add((location.line, text))
        for path in [] if changed else _keys_read(text, "config"):
            if (known := _known(schema, path[:-1])) is not None and path[-1] not in known:
                shown = "".join(f"[{name!r}]" for name in path)
                yield (
                    keys,
                    f"reads config{shown}, which the spec does not declare{did_you_mean(path[-1], known)}",
                    False,
                )
        if "stream_partition" not in text or (fields := _partition_fields(value, keys)) is None:
            continue
        for name, *_ in _keys_read(text, "stream_partition"):
            if name not in fields:
                words = f"reads stream_partition[{name!r}], which no partition has{did_you_mean(name, fields)}"
                yield keys, words, False


def _partition_fields(value: JsonValue, keys: Keys) -> set[str] | None:
    """Return the partition fields of the stream around a part of the manifest; None if they are unknown."""
    stream: JsonValue = None
    for n, key in enumerate(keys):
        if isinstance(value, Mapping) and value.get("type") == "DeclarativeStream":
            stream = None if "stream_template" in keys[:n] else value
        value = value[key]  # type: ignore[index]  # the keys lead to an existing part
    if stream is None:
        return None
    return _router_fields(as_object(as_object(stream).get("retriever")).get("partition_router"))


def _router_fields(router: JsonValue) -> set[str] | None:
    match router:
        case None:
            return set()
        case list():
            each = [_router_fields(inner) for inner in router]
        case {"type": "ListPartitionRouter", "cursor_field": str() as field}:
            each = [{field}]
        case {"type": "SubstreamPartitionRouter", "parent_stream_configs": list() as parents}:
            fields = [as_object(parent).get("partition_field") for parent in parents]
            each = [{field} if isinstance(field, str) else None for field in fields]
            extra = {"extra_fields"} if any("extra_fields" in parent for parent in parents) else set[str]()
            each.append({"parent_slice"} | extra)
        case {"type": "GroupingPartitionRouter", "underlying_partition_router": inner}:
            each = [_router_fields(inner)]
        case _:
            return None
    known = [fields for fields in each if fields is not None]
    names = set[str]().union(*known)
    return None if len(known) < len(each) or any(map(has_expression, names)) else names


def _texts(
    value: JsonValue, keys: Keys, parameters: frozenset[str] | None
) -> Iterator[tuple[Keys, str, frozenset[str] | None]]:
    """Yield the texts with expressions in the fields of components, with the names of the parameters there.

    Names are None inside a template, which may receive others.
    """
    match value:
        case str() if has_expression(value):
            yield keys, value, parameters
        case Mapping():
            kind = value.get("type")
            model = Component.registry.get(kind) if isinstance(kind, str) else None
            if "stream_template" in keys:
                parameters = None
            elif model is not None:
                parameters = frozenset(as_object(value.get("$parameters")))
            for name, part in value.items():
                if name not in _PLAIN and (model is None or _is_read(model, value, name)):
                    yield from _texts(part, (*keys, name), parameters)
        case list():
            for number, part in enumerate(value):
                yield from _texts(part, (*keys, number), parameters)
        case _:
            pass


def _is_read(model: type[Struct], value: Mapping[str, JsonValue], name: str) -> bool:
    """Whether a component reads a field. A field that only `$parameters` adds may be meant for another component."""
    if name == "url" and value.get("url_base"):
        return False
    return name in fields_of(model) or (open_to_more(model) and name not in as_object(value.get("$parameters")))


def _keys_read(text: str, variable: str) -> Iterator[Sequence[str]]:
    """Yield the paths of a variable that an expression reads, also with `get`."""
    for node in environment().parse(text).find_all((nodes.Getitem, nodes.Getattr, nodes.Call)):
        if (path := _path(node, variable)) and not any(name.startswith("__") for name in path):
            yield path


def _path(node: nodes.Node, variable: str) -> tuple[str, ...] | None:
    """Return the path below a variable that a node stands for; None if it is something else."""
    match node:
        case nodes.Name(name=name) if name == variable:
            return ()
        case nodes.Getitem(node=target, arg=nodes.Const(value=str() as name)):
            pass
        case nodes.Call(node=nodes.Getattr(node=target, attr="get"), args=[nodes.Const(value=str() as name), *_]):
            pass
        case nodes.Getattr(node=target, attr=name) if name not in dir(dict):
            pass
        case _:
            return None
    before = _path(target, variable)
    return None if before is None else (*before, name)


def _known(schema: JsonValue, path: Sequence[str]) -> set[str] | None:
    """Return the names that an object at a path of the config may have; None: any."""
    parts = list(_branches(schema))
    for name in path:
        inner = [properties_of(part).get(name) for part in parts]
        parts = [branch for each in inner if each is not None for branch in _branches(each)]
    if any(part.get("additionalProperties") or "patternProperties" in part or "$ref" in part for part in parts):
        return None
    return {name for part in parts for name in properties_of(part)} or None


def _branches(schema: JsonValue) -> Iterator[Mapping[str, JsonValue]]:
    yield as_object(schema)
    for _, branch in branches_of(schema):
        yield from _branches(branch)


def _missing_streams(value: Mapping[str, JsonValue]) -> Iterator[tuple[Keys, str, bool]]:
    """Yield stream names of the check that do not exist, if all names are known without a config."""
    names = [as_string(stream.get("name")) for _, stream in _streams(value.get("streams"), ())]
    chosen = as_object(value.get("check")).get("stream_names")
    unknown = not names or not all(names) or any(map(has_expression, names))
    if value.get("dynamic_streams") or not isinstance(chosen, list) or unknown:
        return
    for number, name in enumerate(chosen):
        if isinstance(name, str) and name not in names:
            yield ("check", "stream_names", number), f"there is no stream {name!r}{did_you_mean(name, names)}", True


def _unfollowed(value: Mapping[str, JsonValue]) -> Iterator[tuple[Keys, str, bool]]:
    """Yield the parents that are to be followed by a stream without a cursor, which is read in full each time."""
    for keys, stream in _all_streams(value):
        if stream.get("type") != "DeclarativeStream" or stream.get("incremental_sync"):
            continue
        router = as_object(stream.get("retriever")).get("partition_router")
        for path in _followed(router, (*keys, "retriever", "partition_router")):
            words = "the stream has no cursor, so that each read looks at all parents again"
            yield path, f"has no effect: {words}; give it an `incremental_sync`, or leave this out", False


def _repeating(value: Mapping[str, JsonValue]) -> Iterator[tuple[Keys, str, bool]]:
    """Yield the steps of cursors whose requests do not name the end of a window: each window returns the later ones."""
    for keys, stream in _all_streams(value):
        cursor, retriever = as_object(stream.get("incremental_sync")), as_object(stream.get("retriever"))
        # A window as long as the granularity is a single day, or hour, which its start names.
        step, granularity = cursor.get("step"), cursor.get("cursor_granularity")
        if not step or step == granularity or cursor.get("end_time_option") or cursor.get("is_client_side_incremental"):
            continue
        requests = [retriever.get(name) for name in ("requester", "creation_requester") if name in retriever]
        built_in = all(as_object(request).get("type") == "HttpRequester" for request in requests)
        end = as_string(cursor.get("partition_field_end")) or "end_time"
        if requests and built_in and end not in canonical(requests):
            words = (
                "splits the read into windows, but no request names a window's end, so each window probably returns "
                f"the records of all later ones, too; set `end_time_option`, use stream_interval[{end!r}] in the "
                "request, or leave `step` and `cursor_granularity` out"
            )
            yield (*keys, "incremental_sync", "step"), words, False


def _values(value: Mapping[str, JsonValue]) -> Iterator[tuple[Keys, str, bool]]:
    """Yield the values of cursors, page sizes and URLs that no config can make right.

    Those of custom components mean what their code makes of them, and those of templates may be replaced.
    """
    for keys, stream in _streams(value.get("streams"), ("streams",)):
        retriever = as_object(stream.get("retriever"))
        requester = as_object(retriever.get("requester"))
        cursor = _built_in(stream.get("incremental_sync"))
        strategy = _built_in(as_object(retriever.get("paginator")).get("pagination_strategy"))
        for name in ("step", "lookback_window", "cursor_granularity"):
            if (text := _literal(cursor.get(name))) and not _is_duration(text):
                words = f"found {text!r}, expected a duration such as P1D, PT1H or P1M"
                yield (*keys, "incremental_sync", name), words, True
        if (text := _literal(cursor.get("datetime_format"))) and (words := format_problem(text)):
            yield (*keys, "incremental_sync", "datetime_format"), words, True
        if (text := _literal(strategy.get("page_size"))) and not text.strip().removesuffix(".0").isdecimal():
            words = f"found {text!r}, expected an integer"
            yield (*keys, "retriever", "paginator", "pagination_strategy", "page_size"), words, True
        path = as_string(requester.get("path"))
        absolute = requester.get("url") or requester.get("url_base") or "://" in path or has_expression(path)
        if requester.get("type") == "HttpRequester" and not absolute:
            words = "HttpRequester needs the field 'url', or 'url_base' and 'path'"
            yield (*keys, "retriever", "requester"), words, True


def _schemas(value: Mapping[str, JsonValue], folder: Path) -> Iterator[tuple[Keys, str, bool]]:
    """Yield what is wrong with the schemas of streams, and with their files, as far as these need no config."""
    for keys, stream in _streams(value.get("streams"), ("streams",)):
        loaders, field = stream.get("schema_loader"), (*keys, "schema_loader")
        listed = [((*field, number), each) for number, each in enumerate(as_list(loaders))] or [(field, loaders)]
        for at, each in listed:
            loader = as_object(each)
            schema = loader.get("schema", {}) if loader.get("type") == "InlineSchemaLoader" else {}
            if loader.get("type") == "JsonFileSchemaLoader":
                name = _literal(as_object(loader.get("$parameters")).get("name") or stream.get("name"))
                file = _literal(loader.get("file_path", name and f"./schemas/{name}.json"))
                try:
                    schema = read_schema(named_file(folder, file)) if file else {}
                except CdkError as error:
                    yield at, str(error), True
            if mistakes := "; ".join(first_few(schema_mistakes(schema), 5)):
                words = f"the schema has mistakes: {mistakes}. Until they are corrected, these fields accept any value"
                yield at, words, False


def _undeclared(value: Mapping[str, JsonValue]) -> Iterator[tuple[Keys, str, bool]]:
    """Yield cursor fields and parts of primary keys that the inline schema of their stream does not declare.

    Transformations and composed schemas may add fields that are not written there.
    """
    for keys, stream in _all_streams(value):
        retriever, loader = as_object(stream.get("retriever")), as_object(stream.get("schema_loader"))
        schema = as_object(loader.get("schema"))
        declared = properties_of(schema)
        composed = not {"patternProperties", "$ref", "oneOf", "anyOf", "allOf"}.isdisjoint(schema)
        built_in = loader.get("type") == "InlineSchemaLoader" and retriever.get("type") != "CustomRetriever"
        if not declared or composed or stream.get("transformations") or not built_in:
            continue
        cursor, key = _built_in(stream.get("incremental_sync")).get("cursor_field"), stream.get("primary_key")
        fields = [
            (("primary_key",), part[0] if isinstance(part, list) and part else part) for part in as_list(key) or [key]
        ]
        for end, field in [(("incremental_sync", "cursor_field"), cursor), *fields]:
            name = _literal(field)
            if name and name not in declared and name.partition(".")[0] not in declared:
                words = f"found {name!r}, expected a property of the inline schema{did_you_mean(name, list(declared))}"
                yield (*keys, *end), words, False


def _built_in(component: JsonValue) -> Mapping[str, JsonValue]:
    """Return a component; an empty object if it is Python code."""
    return {} if as_object(component).get("class_name") else as_object(component)


def _literal(value: JsonValue) -> str:
    """Return a string without expressions; of anything else, an empty string."""
    return value if isinstance(value, str) and not has_expression(value) else ""


def _is_duration(text: str) -> bool:
    try:
        parse_duration(text)
    except ValueError:
        return False
    return True


def _all_streams(value: Mapping[str, JsonValue]) -> Iterator[tuple[Keys, Mapping[str, JsonValue]]]:
    """Yield the streams of a manifest with their places, including the templates of dynamic ones."""
    yield from _streams(value.get("streams"), ("streams",))
    for number, each in enumerate(as_list(value.get("dynamic_streams"))):
        template = as_object(as_object(each).get("stream_template"))
        yield ("dynamic_streams", number, "stream_template"), template


def _streams(streams: JsonValue, keys: Keys) -> Iterator[tuple[Keys, Mapping[str, JsonValue]]]:
    """Yield the streams of a list with their places, including conditional ones."""
    for number, stream in enumerate(as_list(streams)):
        match stream:
            case {"type": "ConditionalStreams", "streams": inner}:
                yield from _streams(inner, (*keys, number, "streams"))
            case _:
                yield (*keys, number), as_object(stream)


def _followed(router: JsonValue, keys: Keys) -> Iterator[Keys]:
    """Yield the places of `incremental_dependency: true` in a router."""
    match router:
        case list():
            for number, inner in enumerate(router):
                yield from _followed(inner, (*keys, number))
        case {"underlying_partition_router": inner}:
            yield from _followed(inner, (*keys, "underlying_partition_router"))
        case {"parent_stream_configs": list() as parents}:
            for number, parent in enumerate(parents):
                if as_object(parent).get("incremental_dependency") is True:
                    yield (*keys, "parent_stream_configs", number, "incremental_dependency")
        case _:
            pass
