"""RestSource: a connector that is declared as data."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

from cdk.base.errors import ConfigError
from cdk.base.secret_names import looks_secret, names_address
from cdk.base.values import JsonObject, JsonSchema, JsonValue
from cdk.base.wording import did_you_mean
from cdk.rest.declared.options import option_problems, with_known_options
from cdk.rest.declared.placeholders import Placeholder, placeholders, settings_of
from cdk.rest.declared.resources import Family, resource
from cdk.rest.declared.stream import Api, ResourceStream
from cdk.rest.errors.error_handler import ErrorHandler
from cdk.rest.http.authenticator import Authenticator
from cdk.rest.limits.budget import Budget
from cdk.rest.pagination.paginator import Paginator
from cdk.rest.records.decoder import Decoder
from cdk.streams.source import Source
from cdk.streams.stream import Stream
from cdk.streams.written_class import kind_shown


@with_known_options
class RestSource(Source):
    """A connector whose streams are resources. A module defines it as `source = RestSource(...)`.

    url: the base URL of paths; it may contain `{config.NAME}`.
    auth: adds the credentials; its strings may contain `{config.NAME}`. These config fields are secret, except those
        in URLs, such as `token_url`, whose names do not look like a secret's.
    records_path, primary_key, params, headers, paginator, decoder, error_handler: defaults for all resources.
    budget: shared by all resources.
    config: JSON Schemas of config fields that are not required strings, or that only a function uses. A field with a
        default is optional.

    Raises ConfigError: listing all errors of the resources.
    """

    def __init__(
        self,
        url: str,
        *resources: resource,
        auth: Authenticator | None = None,
        records_path: str | Sequence[str] = (),
        primary_key: str | Sequence[str] = (),
        params: Mapping[str, JsonValue] | None = None,
        headers: Mapping[str, str] | None = None,
        paginator: Paginator | None = None,
        decoder: Decoder | None = None,
        error_handler: ErrorHandler | None = None,
        budget: Budget | None = None,
        config: Mapping[str, JsonSchema] | None = None,
        name: str = "",
    ) -> None:
        defaults = {"records_path": records_path, "primary_key": primary_key, "params": params, "headers": headers}
        handling = {"paginator": paginator, "decoder": decoder, "error_handler": error_handler, "budget": budget}
        _check({"url": url, "auth": auth, **defaults, **handling, "config": config, "name": name}, resources)
        self.name = name
        family = Family(
            [
                replace(
                    each,
                    records_path=records_path if each.records_path is None else each.records_path,
                    primary_key=primary_key if each.primary_key is None else each.primary_key,
                    params={**(params or {}), **each.params},
                    headers={**(headers or {}), **each.headers},
                    paginator=each.paginator or paginator,
                    decoder=each.decoder or decoder,
                    error_handler=each.error_handler or error_handler,
                )
                for each in resources
            ]
        )
        # The calling module, found as `namedtuple` does: the schemas are in files beside it. The check of the options'
        # names calls this method.
        written_in = sys._getframe(2).f_globals  # noqa: SLF001 - the only way to find it
        self._module, file = str(written_in.get("__name__")), written_in.get("__file__")
        self._api = Api(url, auth, budget, family, file)
        self.config_schema = _config_schema(url, auth, family, config or {})

    @property
    def module(self) -> str:
        return self._module

    def streams(self, config: Mapping[str, JsonValue]) -> Sequence[Stream]:
        return [ResourceStream(each, self._api, config) for each in self._api.family.members.values()]


def _check(options: Mapping[str, object], resources: Sequence[object]) -> None:
    """Raise ConfigError, listing all of them, if options of a source or of its resources have values of other types."""
    problems = [
        *option_problems({name: value for name, value in options.items() if value is not None or name == "url"})
    ]
    for number, each in enumerate(resources, 1):
        if isinstance(each, resource):
            problems += [f"{each.name}: {problem}" for problem in each.problems()]
        else:
            text = f"resource {number}: found {kind_shown(each)}, expected `resource(...)`; give one after another"
            problems.append(text)
    if problems:
        raise ConfigError("\n".join(problems))


def _config_schema(
    url: str, auth: Authenticator | None, family: Family, declared: Mapping[str, JsonSchema]
) -> JsonSchema:
    """Return the schema of the config: the fields in placeholders, as `declared` if they are, and other declared ones.

    Raises ConfigError: when `url` or `auth` has a placeholder of something else than the config.
    """
    in_auth = [*settings_of(auth)]
    auth_fields = {each.field for each in _only_config([each for _, each in in_auth], "auth")}
    secret = {each.field for name, each in in_auth if looks_secret(each.field) or not names_address(name)}
    names = [each.field for each in _only_config([*placeholders(url)], "url")]
    for each in family.members.values():
        in_resource = [*each.requested(), *placeholders(each.add_fields)]
        names += [placeholder.field for placeholder in in_resource if placeholder.scope == "config"]
    properties: dict[str, JsonObject] = {}
    for name in dict.fromkeys([*names, *sorted(auth_fields), *declared]):
        derived: JsonObject = {"type": "string", **({"airbyte_secret": True} if name in secret else {})}
        properties[name] = {**derived, **declared.get(name, {})}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "required": [name for name, schema in properties.items() if "default" not in schema],
        "additionalProperties": True,
        "properties": properties,
    }


def _only_config(named: Sequence[Placeholder], where: str) -> Sequence[Placeholder]:
    for each in named:
        if each.scope != "config":
            raise ConfigError(f"{where}: found {each}, expected {{config.NAME}}{did_you_mean(each.scope, ['config'])}")
    return named
