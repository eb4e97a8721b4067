"""The hosts that a manifest and its config name. Credentials of its requests are sent to no other host.

In expressions, names other than `config` and `parameters` hold values from API responses. If such a value is part of a
host, it matches any text without a dot; if it is the whole host, the expression names no host.
"""

from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import asdict

from cdk.base.first_use import lazy_pattern
from cdk.base.secret_masking import Secrets
from cdk.base.values import JsonValue
from cdk.declarative.components.streams.partition_routers import ListPartitionRouter
from cdk.declarative.components.streams.source import Spec
from cdk.declarative.interpolation.errors import ExpressionError
from cdk.declarative.interpolation.template import compile_template
from cdk.declarative.model.component import Component
from cdk.declarative.model.stream_plug_points import AnySchemaLoader
from cdk.rest.http.origin import CredentialScope, Origin, named_origins, origin

_LITERAL = lazy_pattern(r"https?://[A-Za-z0-9.\-]+(?::[0-9]+)?(?=[/?#\"'\s]|$)")
# The rest of a host after its last wildcard must be a domain with a single owner: `*.com` names no host.
_DOMAIN = lazy_pattern(r"[A-Za-z0-9\-_]*(?:\.[A-Za-z0-9\-_]+){2,}")

_EXPRESSION = lazy_pattern(r"(?s)\{\{.*?\}\}")
_STRING = lazy_pattern(r"'[^']*'|\"[^\"]*\"")
_WITH_HOSTS = ("config", "parameters", "options")


def credential_scope(root: Component, config: Mapping[str, JsonValue], secrets: Secrets) -> CredentialScope:
    """Return the origins to which credentials of the streams may be sent, and the secret values of the config."""
    return CredentialScope(frozenset((*_below(root, config, {}), *named_origins(dict(config)))), secrets)


def _below(value: object, config: Mapping[str, JsonValue], parameters: Mapping[str, JsonValue]) -> Iterator[Origin]:
    """Yield the origins that a part of a manifest names; descriptive parts, `spec` and schemas, are skipped."""
    match value:
        case str():
            yield from _origins(value, config, parameters)
        case Spec() | AnySchemaLoader():
            return
        case ListPartitionRouter(values=list() as values):
            yield from named_origins(values)
        case Component(parameters=own) if own is not parameters:
            yield from _below(value, config, own)
        case Struct():
            fields = {**asdict(value), "parameters": None}
            yield from _below(list(fields.values()), config, parameters)
        case Mapping() if not str(value.get("type", "")).endswith("SchemaLoader"):
            # A template of streams: its parts become components once it is filled in.
            more = value.get("$parameters")
            own = {**parameters, **more} if isinstance(more, Mapping) else parameters
            yield from _below(list(value.values()), config, own)
        case list() | tuple():
            for part in value:
                yield from _below(part, config, parameters)
        case _:
            return


def _origins(text: str, config: Mapping[str, JsonValue], parameters: Mapping[str, JsonValue]) -> Iterator[Origin]:
    """Yield the origins that a string of a manifest may render to."""
    if "{" not in text:
        if (plain := origin(text)).host:
            yield plain
        return
    if not _may_name_host(text):
        return
    for literal in _LITERAL.findall(text):
        yield origin(literal)
    try:
        template = compile_template(text)
        unknown = dict.fromkeys(template.names, _Unknown())
        named = origin(template.render({**unknown, "config": config, "parameters": parameters}).strip())
    except ExpressionError:
        return
    if named.host and ("*" not in named.host or _DOMAIN.fullmatch(named.host.rpartition("*")[2])):
        yield named


def _may_name_host(text: str) -> bool:
    """Whether a text with expressions may render to a URL or a domain; rendering it may import Jinja.

    A dot or a colon must come from its literal text, from a string in an expression, or from known values.
    """
    if any(name in text for name in _WITH_HOSTS):
        return True
    literal = _EXPRESSION.sub(lambda expression: "".join(_STRING.findall(expression[0])), text)
    return "." in literal or ":" in literal


class _Unknown(dict[str, object]):
    """A value unknown until the API responds: renders as `*`, and returns itself for every key."""

    def __missing__(self, name: str) -> "_Unknown":
        return self

    def get(self, key: str, default: object = None, /) -> "_Unknown":  # noqa: ARG002 - the signature of a dict
        return self

    def __str__(self) -> str:
        return "*"
