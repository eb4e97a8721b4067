"""Checks that a connector describes its config, accepts a valid one, and refuses an invalid one."""

from collections.abc import Iterator, Mapping

from cdk.base.errors import CdkError
from cdk.base.schema_validator import DRAFT_7, SchemaValidator
from cdk.base.secret_masking import Secrets
from cdk.base.secret_names import looks_secret
from cdk.base.values import FieldValue, JsonSchema, as_list, as_object, branches_of, properties_of
from cdk.sources.config import prepared_config
from cdk.testing.conformance.faults import Failing
from cdk.testing.conformance.subject import CommandResult, Nonconforming, SuiteSubject

__tracebackhide__ = True  # see `cdk.testing.conformance.subject`

_WRONG: Mapping[str, FieldValue] = {"object": "text", "array": "text", "string": {"not": "a string"}, "boolean": "text"}
"""A value of a wrong type, for each JSON type; for numbers, a string is used."""


def check_spec(subject: SuiteSubject) -> None:
    """Check that the config's schema is valid and marks secrets, and that `spec` emits it."""
    schema = subject.source.config_schema
    where = f"{subject.name}.config_schema"
    try:
        SchemaValidator(schema, default=DRAFT_7)
    except ValueError as error:
        raise Nonconforming(
            f"the spec is not a JSON Schema: {error}",
            where=where,
            expected="a JSON Schema, draft 7",
            advice="correct it; https://json-schema.org/understanding-json-schema has the keywords",
        ) from None
    for path, part in _objects(schema):
        properties = properties_of(part)
        if missing := sorted(set(map(str, as_list(part.get("required")))) - properties.keys()):
            raise Nonconforming(
                f"requires {', '.join(missing)}, which it does not describe",
                where=f"{where}{path}.required",
                expected="names of `properties`",
                advice="describe the property, or correct the name",
            )
        for name, rule in properties.items():
            kind = as_object(rule)
            if looks_secret(name) and kind.get("type") == "string" and "airbyte_secret" not in kind:
                raise Nonconforming(
                    f"{name!r} looks like a secret and is not marked as one",
                    where=f"{where}{path}.properties.{name}",
                    expected='"airbyte_secret": true, so that it is masked in logs, errors and states',
                    advice='mark it; or set `"airbyte_secret": false` if everyone may see it',
                )
    answer = subject.command("spec")
    if answer.code or len(answer.of("SPEC")) != 1:
        raise Nonconforming(
            f"`spec` ends with exit code {answer.code} and {len(answer.of('SPEC'))} SPEC messages: {answer.text}",
            where=where,
            expected="exit code 0 and one SPEC",
            advice="`spec` must work without a config and without the network",
        )


def check_good_config(subject: SuiteSubject) -> None:
    """Check that `check` accepts the config, but only while the API can be reached and accepts the credentials."""
    try:
        prepared_config(subject.config, subject.source, "config", Secrets())
    except CdkError as error:
        raise Nonconforming(
            f"the config of the suite does not fit the spec: {error}",
            where=f"{subject.name}.config_schema",
            expected="a spec that its own config fits",
            advice="correct the spec or the suite's `config`",
        ) from None
    _ = subject.first
    api = Failing(subject.api(), fails_after=None)
    answer = subject.command("check", api=api)
    if not _succeeded(answer):
        raise Nonconforming(
            f"`check` rejects the valid config: {_message(answer)}",
            where=f"{subject.name}.check",
            expected="CONNECTION_STATUS SUCCEEDED and exit code 0",
            advice="correct `check`, the suite's `config`, or its API",
        )
    if not api.requests:
        reading = Failing(subject.api(), fails_after=None)
        subject.read(api=reading)
        if reading.requests:
            raise Nonconforming(
                "`check` sends no request",
                where=f"{subject.name}.check",
                expected="a request that fails where a read would",
                advice="leave `check` to the kit, which reads the first page of the first stream, or send one in it",
            )
        return
    for status in (401, 500):
        answer = subject.command("check", api=Failing(subject.api(), fails_after=0, status=status))
        _must_fail(subject, answer, f"an API that answers {status} to everything")


def check_bad_configs(subject: SuiteSubject, bad_configs: list[Mapping[str, FieldValue]]) -> None:
    """Check that configs with a missing property, or one of a wrong type, are refused with the property's name.

    bad_configs: further configs that must be refused.
    """
    for name, config in _broken(subject.source.config_schema, subject.config):
        answer = subject.command("check", config=config)
        _must_fail(subject, answer, f"a config whose {name!r} is {'wrong' if name in config else 'missing'}")
        if name not in _message(answer):
            raise Nonconforming(
                f"`check` does not report that {name!r} is wrong: {_message(answer)}",
                where=f"{subject.name}.config_schema",
                expected=f"a message with {name!r} in it",
                advice="have the spec require it and give its type; then the kit finds it before the first request",
            )
    for name in subject.config:
        answer = subject.command("check", config={key: value for key, value in subject.config.items() if key != name})
        _must_not_break(subject, answer, f"a config without {name!r}")
    for config in bad_configs:
        shown = {name: value for name, value in config.items() if subject.config.get(name) != value}
        _must_fail(subject, subject.command("check", config=config), f"a bad config ({', '.join(shown) or 'as given'})")


def _must_fail(subject: SuiteSubject, answer: CommandResult, why: str) -> None:
    if _succeeded(answer):
        raise Nonconforming(
            f"`check` succeeds with {why}",
            where=f"{subject.name}.check",
            expected="CONNECTION_STATUS FAILED with the reason",
            advice="let the error of the request propagate, or declare the rule in the spec",
        )
    _must_not_break(subject, answer, why)


def _must_not_break(subject: SuiteSubject, answer: CommandResult, why: str) -> None:
    if answer.code or not answer.of("CONNECTION_STATUS") or "Traceback" in _message(answer):
        raise Nonconforming(
            f"`check` breaks with {why}: exit code {answer.code}, {answer.text[-600:]}",
            where=f"{subject.name}.check",
            expected="exit code 0 and a CONNECTION_STATUS, with a readable reason if it is FAILED",
            advice="have the spec require what is needed; raise a `cdk.ConfigError` that says what to "
            "correct, in place of other exceptions",
        )


def _succeeded(answer: CommandResult) -> bool:
    return [m["connectionStatus"]["status"] for m in answer.of("CONNECTION_STATUS")] == [
        "SUCCEEDED"
    ] and not answer.code


def _message(answer: CommandResult) -> str:
    statuses = [m["connectionStatus"].get("message") or "" for m in answer.of("CONNECTION_STATUS")]
    return statuses[0] if statuses else answer.text[-600:]


def _broken(schema: JsonSchema, config: Mapping[str, FieldValue]) -> Iterator[tuple[str, Mapping[str, FieldValue]]]:
    """Yield configs in which one property is missing or has a wrong type, each with the property's name."""
    properties = properties_of(schema)
    for name in map(str, as_list(schema.get("required"))):
        if "default" not in as_object(properties.get(name)):
            yield name, {key: value for key, value in config.items() if key != name}
    for name, rule in properties.items():
        kind = as_object(rule).get("type")
        if isinstance(kind, str) and name in config:
            yield name, {**config, name: _WRONG.get(kind, "text")}


def _objects(schema: JsonSchema, path: str = "") -> Iterator[tuple[str, JsonSchema]]:
    """Yield the schema and the schemas of the objects in it, each with its path."""
    yield path, schema
    for name, rule in properties_of(schema).items():
        yield from _objects(as_object(rule), f"{path}.properties.{name}")
    for where, branch in branches_of(schema):
        yield from _objects(as_object(branch), f"{path}.{where}")
