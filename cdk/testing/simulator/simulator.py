"""Simulator: an API for a connector without access to the real one, derived from its streams' requests and a seed."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from datetime import timedelta

from msgspec.structs import replace

from cdk.base.errors import CdkError
from cdk.base.run import RunScope
from cdk.base.secret_masking import Secrets
from cdk.base.values import FieldValue, JsonObject, JsonSchema, JsonValue, as_object, properties_of, to_json
from cdk.declarative.reading.manifest_stream import ManifestStream
from cdk.declarative.source import ManifestSource
from cdk.declarative.syntax.json_edit import set_at
from cdk.rest import Authenticator, OAuth2, Request, Response
from cdk.rest.auth.session_token import LegacySessionToken, SessionToken
from cdk.rest.http.authenticator import text_of
from cdk.rest.http.transport import Offline
from cdk.sources.config import prepared_config
from cdk.streams.datetime_cursor import DatetimeCursor
from cdk.streams.source import Source
from cdk.streams.stream import Stream
from cdk.testing.mock_api import MockApi
from cdk.testing.routes import Route, UnexpectedRequest, json_response
from cdk.testing.run import Connector, connector
from cdk.testing.simulation import MockClock, simulated
from cdk.testing.simulator.described_streams import FIELDS, source_of_schemas, source_with_resolvers
from cdk.testing.simulator.examples import example_of
from cdk.testing.simulator.field_use import FieldUse, field_uses, objects_in, passing_choices
from cdk.testing.simulator.pages import token_in
from cdk.testing.simulator.records import Collection, World
from cdk.testing.simulator.stream_api import ADVICE, NotSimulated, Probe, StreamApi, StreamTraits
from cdk.testing.simulator.templates import Query, leaves

_TOKEN = "simulated-token"  # noqa: S105 - not a real token
_HISTORY = timedelta(days=30)
_LEAST_RECORDS = 10
"""The least number of records while the simulator probes what requests look like."""
_SAMPLES = 5
"""How many sample records a filter is tried with."""


class Unsimulated(CdkError):
    """Raised for a request without a simulated response; the stream's other slices have none either."""


class Simulator(Offline):
    """A transport that answers a connector's requests with generated records, and sends nothing.

    source: as for `read`. config: missing values are made up, credentials included. world: how much to simulate.
    Attributes `config` and `clock`: to read with; `missing`: why a stream is not simulated, by the stream's name.
    Raises what opening the source raises.
    """

    def __init__(
        self, source: Connector, config: Mapping[str, JsonValue] | None = None, world: World | None = None
    ) -> None:
        source = connector(source)
        self._source, self._token_paths = source, _token_paths(source)
        # A property that the schema does not require may be needed all the same.
        for everything in (False, True):
            with nullcontext() if everything else suppress(CdkError):
                self._simulate(made_up(source.config_schema, config or {}, everything=everything), world or World())
                if self._apis:
                    break

    def _simulate(self, config: Mapping[str, JsonValue], world: World) -> None:
        source, self.config, self.world = self._source, config, world
        self.missing: dict[str, str] = {}
        self._apis: dict[str, StreamApi] = {}
        self._api, self._logins = MockApi(), set[str]()
        self._schema_streams: set[str] = set()
        self._routed: dict[tuple[str, str], list[StreamApi]] = {}
        # Separate runs, because a run may cache a parent's responses, also those of another simulator.
        with RunScope().working(), simulated(self, MockClock(self.world.now)):
            prepared = prepared_config(self.config, source, "config", Secrets())
            if (described := source_with_resolvers(source)) is not None:
                self._probe_described(*described, prepared)
        with RunScope().working(), simulated(self, MockClock(self.world.now)):
            self._probe_source(source, source.open(prepared), prepared)
        if self.world.faults:
            # Added only now, because probing the requests must not meet faults.
            self._api = MockApi()
            for method, pattern in self._routed:
                self._route(method, pattern, faults=True)

    @property
    def clock(self) -> MockClock:
        """A clock at the time of the round; waits take no time."""
        return MockClock(self.world.present)

    @property
    def streams(self) -> Mapping[str, StreamApi]:
        """The simulated streams by name, in the connector's order."""
        return {name: self._apis[name] for name in self._names if name in self._apis}

    @contextmanager
    def playing(self) -> Iterator[None]:
        """Answer all requests of this process inside the block, at the time of the round."""
        with simulated(self, self.clock):
            yield

    @property
    def origins(self) -> Sequence[str]:
        """The scheme and host of every simulated endpoint."""
        patterns = [api.pattern for api in self._apis.values()] + [each.partition(" ")[2] for each in self._logins]
        return list(dict.fromkeys("/".join(each.split("/")[:3]) for each in patterns))

    def records(self, name: str) -> list[JsonObject]:
        """Return all records of a simulated stream, as the API returns them in this round."""
        api = self._apis[name]
        with RunScope().working(), self.playing():
            parts = dict.fromkeys(api.key_of(partition) for partition in api.stream.partitions())
        return [record for part in parts for record in api.records(part)]

    def send(self, request: Request) -> Response:
        """Return the response to a request. Raises Unsimulated: when no simulated stream sends such a request."""
        login = self._log_in(request)
        if login is not None:
            return login
        try:
            return self._api.send(request)
        except UnexpectedRequest as unknown:
            names = f"; not simulated yet: {', '.join(self.missing)}" if self.missing else ""
            raise Unsimulated(f"{request}: nothing is simulated there{names}; {ADVICE}") from unknown

    def _probe_described(self, written: Source, names: Sequence[str], config: Mapping[str, JsonValue]) -> None:
        """Probe the streams that describe other streams, and those that the manifest declares itself.

        written: a source with all of these. names: the streams in it that are descriptions. Raises Unsimulated: when
        one of them cannot be simulated.
        """
        self._probe_source(written, written.open(config), config)
        for name in names:
            if name in self.missing:
                raise Unsimulated(
                    f"the request that lists the streams of {name!r} (HttpComponentsResolver) is not simulated: "
                    f"{self.missing[name]}"
                )

    def _probe_source(self, source: Source, streams: Sequence[Stream], config: Mapping[str, JsonValue]) -> None:
        """Probe the requests of all streams of a source that are not known yet."""
        self.world = replace(self.world, now=_present(streams, self.world))
        self._uses, self._names = field_uses(source, streams), [stream.name for stream in streams]
        self.missing.clear()
        with simulated(self, self.clock):
            schemas = source_of_schemas(source, streams)
            if schemas is not None:
                unprobed = {each.name: each for each in schemas.open(config) if each.name not in self._schema_streams}
                self._uses |= field_uses(schemas, [*unprobed.values()])
                self._schema_streams |= {*unprobed}
                self._probe_streams(unprobed, replace(self.world, records=FIELDS, round=0))
            parents = [(f"{parent.name} as a parent", parent) for stream in streams for parent in _parents(stream)]
            named = {**dict(parents), **{stream.name: stream for stream in streams}}
            # A child's requests show only if its parents have records; the simulated world itself may be empty.
            populated = replace(self.world, records=max(self.world.records, _LEAST_RECORDS))
            self._probe_streams({name: stream for name, stream in named.items() if name not in self._apis}, populated)
        for name, api in self._apis.items():
            if name not in self._schema_streams:
                api.serve(api.collection, self.world)

    def _probe_streams(self, streams: Mapping[str, Stream], world: World) -> None:
        """Probe the streams' requests in a world, parents before the streams that are read for their records."""
        waiting = dict(streams)
        while waiting:
            before = len(waiting)
            for name, stream in list(waiting.items()):
                try:
                    self._probe_stream(name, stream, world)
                except (NotSimulated, CdkError) as why:
                    if name in self._names:
                        self.missing[name] = f"{why}; {why.advice}" if type(why) is NotSimulated else str(why)
                    continue
                del waiting[name]
                self.missing.pop(name, None)
            if len(waiting) == before:
                return

    def _probe_stream(self, name: str, stream: Stream, world: World) -> None:
        traits = StreamTraits.of(stream)
        self._learn_login(traits.authenticator)
        api = StreamApi(
            name,
            stream,
            traits,
            collection=self._collection(stream, traits),
            added=self._use(stream).added,
            world=world,
            probe=Probe(self._log_in),
        )
        method = api.first.method
        routed = self._routed.setdefault((method, api.pattern), [])
        same = [each for each in routed if (each.template.base, each.shape.path) == (api.template.base, api.shape.path)]
        if same:
            # Two streams read the same endpoint.
            shared = same[0].collection.joined(api.collection)
            for each in (*same, api):
                each.serve(shared, world)
        if not routed:
            self._route(method, api.pattern)
        routed.append(api)
        self._apis[name] = api

    def _route(self, method: str, pattern: str, *, faults: bool = False) -> None:
        apis, route = self._routed[method, pattern], self._api.add(Route(method, pattern))
        if faults:
            route.returns(status=429, headers={"Retry-After": "1"}).returns(status=503)
        route.answers(lambda request: self._answer(apis, request))

    def _answer(self, apis: Sequence[StreamApi], request: Request) -> Response:
        token = token_in(request)
        if token is not None:
            name, *rest = token
            return self._apis[str(name)].answer(request, Query.brought_back(rest))
        sent = leaves(request)
        matches = [(query, api) for api in apis if (query := api.template.match(sent)) is not None]
        if not matches:
            raise UnexpectedRequest(str(request))
        best = max(query.fit for query, _ in matches)
        answers = [api.answer(request, query) for query, api in matches if query.fit == best]
        body = answers[0].json()
        for other in answers[1:]:
            body = _merged(body, other.json())
        return Response(200, answers[0].headers, to_json(body, str), request.full_url, request)

    def _collection(self, stream: Stream, traits: StreamTraits) -> Collection:
        use = self._use(stream)
        keys = [*map(tuple, stream.key_paths), *use.keys]
        schema: JsonSchema = {"type": "object", **stream.json_schema()}
        if not {"properties", "allOf"} & schema.keys():
            schema = {**schema, "properties": {"name": {"type": "string"}}}
        if not keys and "id" in properties_of(schema):
            keys.append(("id",))
        distinct = [key for key in dict.fromkeys(keys) if all(key)]
        collection = Collection(
            stream.name,
            use.schema(schema),
            distinct,
            stream.cursor,
            descending=traits.descending,
            copies=use.copies,
            passing=use.passing,
        )
        samples = collection.samples(self.world, _SAMPLES)
        choices = [passing_choices(each, samples, collection.schema, self.config) for each in use.conditions]
        use = replace(use, passing=[*use.passing, *filter(None, choices)])
        return replace(collection, schema=use.schema(schema), passing=use.passing)

    def _use(self, stream: Stream) -> FieldUse:
        """Return how the fields of a stream are used; an unused default for a stream that is read only as a parent."""
        return self._uses.get(stream.name, FieldUse())

    def _learn_login(self, authenticator: Authenticator | None) -> None:
        match authenticator:
            case OAuth2():
                self._logins.add(_address("POST", text_of(authenticator.token_url)))
            case SessionToken():
                login = authenticator.login()
                self._logins.add(_address(login.method, login.full_url))
            case LegacySessionToken():
                self._logins.add(_address("POST", text_of(authenticator.login_url)))
                self._logins.add(_address("GET", text_of(authenticator.validate_url)))
            case _:
                pass

    def _log_in(self, request: Request) -> Response | None:
        """Return the response to a login, with a token under every name it may have; None for other requests."""
        if _address(request.method, request.full_url) not in self._logins:
            return None
        body: JsonObject = {"token_type": "Bearer", "expires_in": 3600}
        body |= dict.fromkeys(("access_token", "token", "id"), _TOKEN)
        for path in self._token_paths:
            set_at(body, path, _TOKEN)
        return json_response(request, 200, to_json(body))


def made_up(
    schema: Mapping[str, JsonValue], config: Mapping[str, JsonValue], *, everything: bool = False
) -> JsonObject:
    """Return the config with made-up values for all missing required properties, or for `everything` it may have."""
    completed = dict(config)
    required = properties_of(schema) if everything else schema.get("required")
    for name in required if isinstance(required, Mapping | list | tuple) else ():
        part = as_object(properties_of(schema).get(name))
        if name not in completed and "default" not in part:
            examples = () if {"pattern", "format"} & part.keys() else part.get("examples")
            text = f"https://{name}.example.com" if "url" in name else f"simulated-{name}"
            completed[name] = examples[0] if isinstance(examples, list) and examples else example_of(part, text)
        elif isinstance(completed.get(name), dict):
            completed[name] = made_up(part, as_object(completed[name]), everything=everything)
    return completed


def _token_paths(source: Source) -> list[tuple[str, ...]]:
    """Return the paths of tokens in the login responses of a manifest."""
    paths: list[tuple[str, ...]] = []
    for part in objects_in(source.resolved) if isinstance(source, ManifestSource) else ():
        match part:
            case {"session_token_path": [*path]}:
                paths.append(tuple(map(str, path)))
            case {"access_token_name": str(name)}:
                paths.append((name,))
            case _:
                pass
    return paths


def _parents(stream: Stream) -> Iterator[Stream]:
    """Yield the parents of a stream, as it reads them, each after its own parents."""
    if isinstance(stream, ManifestStream) and stream.reader.router is not None:
        for parent in stream.reader.router.parents:
            yield from _parents(parent)
            yield parent


def _present(streams: Sequence[Stream], world: World) -> FieldValue:
    """Return a time some while after the start of every cursor, and not before `world.now`."""
    starts = [
        stream.cursor.timestamp(stream.cursor.start) for stream in streams if isinstance(stream.cursor, DatetimeCursor)
    ]
    return max(
        [world.now, *(start + _HISTORY for start in starts if start is not None and start + _HISTORY > world.now)]
    )


def _merged(first: JsonValue, other: JsonValue) -> JsonValue:
    if isinstance(first, dict) and isinstance(other, dict):
        return {
            **other,
            **{name: _merged(value, other[name]) if name in other else value for name, value in first.items()},
        }
    return first


def _address(method: str, url: str) -> str:
    return f"{method.upper()} {url.partition('?')[0]}"
