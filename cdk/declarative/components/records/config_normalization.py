"""How a config is prepared before streams see it: old ones are migrated, then changed for this run, then validated."""

import json
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from cdk.base.errors import ConfigError, ManifestError
from cdk.base.schema_validator import DRAFT_2020_12, SchemaValidator
from cdk.base.values import JsonObject, JsonValue, canonical, json_kind
from cdk.declarative.components.records.transformations import AddedFieldDefinition, Pointers, Text, removers_of
from cdk.declarative.interpolation.template import compile_nested, compile_template
from cdk.declarative.model.component import Component
from cdk.declarative.model.context import BuildContext
from cdk.declarative.model.stream_plug_points import AnyConfigTransformation, AnyValidationStrategy, AnyValidator
from cdk.declarative.syntax import json_edit as edits

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

Change = Callable[[JsonObject], None]
Check = Callable[[Mapping[str, JsonValue]], None]


class ConfigRules(Struct, frozen=True):
    """The rules of a connector, built. None of them modifies the config that it is passed."""

    migrations: Sequence[Change] = ()
    transformations: Sequence[Change] = ()
    validations: Sequence[Check] = ()

    def migrate(self, config: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        """Return the config in today's form, to be saved; `config` itself if it has that form already."""
        return _changed(config, self.migrations)

    def transform(self, config: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        """Return the config as streams see it; `config` itself if nothing changes."""
        return _changed(config, self.transformations)

    def validate(self, config: Mapping[str, JsonValue]) -> None:
        """Raise ConfigError: when the connector does not accept a value of the config."""
        for check in self.validations:
            check(config)


def _changed(config: Mapping[str, JsonValue], changes: Sequence[Change]) -> Mapping[str, JsonValue]:
    if not changes:
        return config
    copy = deepcopy(dict(config))
    for change in changes:
        change(copy)
    return config if canonical(copy) == canonical(dict(config)) else copy


class ConfigRemapField(AnyConfigTransformation):
    """Replaces a value of the config according to a map; values that are not in the map stay.

    Example:
        type: ConfigRemapField
        field_path: [environment]
        map: {sandbox: test, live: production}
    """

    map: JsonObject | str
    """The new value for each old value, or an expression that returns such a map."""
    field_path: Annotated[list[Text], Meta(min_length=1)]
    """Path of the value; a missing value is left alone."""

    def build(self, ctx: BuildContext) -> Change:
        path = [compile_template(part, ctx.where(self, "field_path")) for part in self.field_path]
        where = ctx.where(self, "map")
        template = compile_template(self.map, where) if isinstance(self.map, str) else None
        entries: Mapping[str, JsonValue] = {} if isinstance(self.map, str) else self.map
        values = {name: compile_nested(value, where) for name, value in entries.items()}
        parameters = self.parameters

        def change(config: JsonObject) -> None:
            scope: dict[str, object] = {"config": config, "parameters": parameters}
            *way, last = [part.render(scope) for part in path]
            parent: JsonValue = config
            for name in way:
                parent = parent.get(name) if isinstance(parent, dict) else None
            if not isinstance(parent, dict) or not isinstance(old := parent.get(last), str | int | float):
                return
            if template is None:
                if old in values:
                    parent[last] = values[old].value(scope)
            elif isinstance(renames := template.value(scope, default={}), dict):
                parent[last] = renames.get(old, old)

        return change


class ConfigAddFields(AnyConfigTransformation):
    """Adds fields to the config, in order: later ones can read earlier ones.

    Example:
        type: ConfigAddFields
        fields:
          - {path: [base_url], value: "https://{{ config['shop'] }}.example.com"}
        condition: "{{ not config.get('base_url') }}"
    """

    fields: list[AddedFieldDefinition]
    """The fields to add."""
    condition: Text = ""
    """Whether to add a field. Reads `config`, and the field's `value` and `path`; empty means always."""

    def build(self, ctx: BuildContext) -> Change:
        added = [field.build(ctx) for field in self.fields]
        condition = compile_template(self.condition, ctx.where(self, "condition")) if self.condition else None
        where, parameters = ctx.where(self, "fields"), self.parameters

        def change(config: JsonObject) -> None:
            for field in added:
                scope: dict[str, object] = {"config": config, "parameters": parameters}
                value = field.value_in(scope)
                scope |= {"value": value, "path": field.path}
                if condition is not None and not condition.true(scope):
                    continue
                try:
                    field.put(config, value)
                except ValueError as error:
                    raise ConfigError(f"{where}: {error}", path=".".join(field.path)) from None

        return change


class ConfigRemoveFields(AnyConfigTransformation):
    """Removes fields from the config. A missing field is no error.

    Example:
        type: ConfigRemoveFields
        field_pointers:
          - [old_token]
        condition: "{{ config.get('token') }}"
    """

    field_pointers: Pointers
    condition: Text = ""
    """Whether to remove the fields; reads `config`. Empty means always."""

    def build(self, ctx: BuildContext) -> Change:
        removers = removers_of(self, ctx, self.field_pointers)
        condition = compile_template(self.condition, ctx.where(self, "condition")) if self.condition else None
        parameters = self.parameters

        def change(config: JsonObject) -> None:
            if condition is None or condition.true({"config": config, "parameters": parameters}):
                for remove in removers:
                    remove(config)

        return change


class ConfigMigration(Component):
    """Converts an old form of the config to today's; the config is saved if it changed.

    Example:
        type: ConfigMigration
        description: The region has a name of its own now.
        transformations:
          - {type: ConfigRemapField, field_path: [region], map: {us: us-east-1}}
    """

    transformations: list[AnyConfigTransformation]
    """The changes, in order."""
    description: str | None = None
    """The purpose of the migration."""

    def build(self, ctx: BuildContext) -> list[Change]:
        """Return the functions that change a config."""
        return [item.build(ctx) for item in self.transformations]


class ValidateAdheresToSchema(AnyValidationStrategy):
    """Accepts values that match a JSON Schema. A string may also match as the JSON that it contains.

    Example:
        type: ValidateAdheresToSchema
        base_schema: {type: object, required: [id]}
    """

    base_schema: JsonObject | str
    """The JSON Schema: an object, a string of JSON, or an expression that returns either."""

    def build(self, ctx: BuildContext) -> Callable[[JsonValue], None]:
        """Build the check. Raises ManifestError: when the schema is invalid."""
        where = ctx.where(self, "base_schema")
        schema: JsonValue = self.base_schema
        if isinstance(schema, str):
            schema = _parsed(ctx.expression(self, "base_schema").value())
        if not isinstance(schema, dict):
            raise ManifestError(f"{where}: found {json_kind(schema)}, expected a JSON Schema, which is an object")
        try:
            validator = SchemaValidator(schema, default=DRAFT_2020_12)
        except ValueError as error:
            raise ManifestError(f"{where}: this is not a valid JSON Schema: {error}") from None

        def check(value: JsonValue) -> None:
            mismatch = validator.mismatch(value)
            if mismatch is not None and isinstance(value, str):
                mismatch = validator.mismatch(_parsed(value))
            if mismatch is not None:
                raise ValueError(_mismatch(mismatch))

        return check


def _parsed(value: JsonValue) -> JsonValue:
    if not isinstance(value, str):
        return value
    try:
        parsed: JsonValue = json.loads(value)
    except ValueError:
        return value
    return parsed


def _mismatch(mismatch: "ValidationError") -> str:
    """Return what does not match, without the value, which may be a secret."""
    path, value, rule = mismatch.absolute_path, mismatch.instance, mismatch.validator
    expected: JsonValue = mismatch.validator_value  # type: ignore[assignment] # unset only before it is raised
    location = f"{'.'.join(map(str, path))}: " if path else ""
    if rule == "required" and isinstance(expected, list) and isinstance(value, dict):
        missing = ", ".join(str(name) for name in expected if name not in value)
        return f"{location}found an object without {missing}, expected one with it"
    limit = expected if isinstance(expected, str | int | float) else canonical(expected)
    return f"{location}found {json_kind(value)} that is not valid, expected {rule}: {limit}"


class DpathValidator(AnyValidator):
    """Validates a value of the config. A missing value is not validated.

    Example:
        type: DpathValidator
        field_path: [start_date]
        validation_strategy:
          type: ValidateAdheresToSchema
          base_schema: {type: string, pattern: "^[0-9]{4}-"}
    """

    field_path: Annotated[list[Text], Meta(min_length=1)]
    """Path of the value; `*` stands for every key or element at its place."""
    validation_strategy: AnyValidationStrategy
    """How the value is validated."""

    def build(self, ctx: BuildContext) -> Check:
        path = [compile_template(part, ctx.where(self, "field_path")) for part in self.field_path]
        accept, parameters = self.validation_strategy.build(ctx), self.parameters

        def check(config: Mapping[str, JsonValue]) -> None:
            names = [part.render({"config": config, "parameters": parameters}) for part in path]
            for value in edits.matches_at(config, names):
                _accepted(accept, value, ".".join(("config", *names)))

        return check


class PredicateValidator(AnyValidator):
    """Validates a value that is computed from the config.

    Example:
        type: PredicateValidator
        value: "{{ config['api_version'] }}"
        validation_strategy:
          type: ValidateAdheresToSchema
          base_schema: {type: integer, minimum: 3}
    """

    value: JsonValue
    """The value to validate; expressions in it, at any depth, read `config`."""
    validation_strategy: AnyValidationStrategy
    """How the value is validated."""

    def build(self, ctx: BuildContext) -> Check:
        where = ctx.where(self, "value")
        source = (
            compile_template(self.value, where) if isinstance(self.value, str) else compile_nested(self.value, where)
        )
        accept, parameters = self.validation_strategy.build(ctx), self.parameters

        def check(config: Mapping[str, JsonValue]) -> None:
            _accepted(accept, source.value({"config": config, "parameters": parameters}), where)

        return check


def _accepted(accept: Callable[[JsonValue], None], value: JsonValue, location: str) -> None:
    try:
        accept(value)
    except ValueError as error:
        raise ConfigError(str(error), path=location) from None


class ConfigNormalizationRules(Component):
    """Prepares a config before streams see it.

    Example:
        type: ConfigNormalizationRules
        config_migrations:
          - type: ConfigMigration
            transformations:
              - {type: ConfigRemapField, field_path: [region], map: {us: us-east-1}}
    """

    config_migrations: list[ConfigMigration] = []
    """Migrations of configs in an old form; the changed config is saved."""
    transformations: list[AnyConfigTransformation] = []
    """Changes of the config for one run, after the migrations; they are not saved."""
    validations: list[AnyValidator] = []
    """Validations of the config, made when the streams are built."""

    def build(self, ctx: BuildContext) -> ConfigRules:
        """Build the rules. They read the config that is passed to them, not that of `ctx`."""
        return ConfigRules(
            [change for migration in self.config_migrations for change in migration.build(ctx)],
            [item.build(ctx) for item in self.transformations],
            [item.build(ctx) for item in self.validations],
        )
