"""JSON Schema validation by the `jsonschema` library, imported on first use because that takes a tenth of a second."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cdk.base.bounded_regex import Pattern
from cdk.base.values import FieldValue, JsonSchema

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_2020_12 = "https://json-schema.org/draft/2020-12/schema"


class SchemaValidator:
    """Validates values against a schema; each `pattern` has a time limit.

    default: the draft of schemas without `$schema`.
    Raises ValueError, with the reason: `schema` is not a valid JSON Schema.
    """

    def __init__(self, schema: JsonSchema, *, default: str) -> None:
        from jsonschema.exceptions import SchemaError, ValidationError, best_match  # noqa: PLC0415 - see the module
        from jsonschema.validators import extend, validator_for  # noqa: PLC0415 - see the module

        schema = dict(schema)
        checker = validator_for(schema, default=validator_for({"$schema": default}))
        try:
            checker.check_schema(schema)
        except SchemaError as error:
            raise ValueError(error.message) from None

        def pattern(_: object, pattern: str, value: object, __: object) -> Iterator[ValidationError]:
            if isinstance(value, str) and Pattern(pattern).search(value) is None:
                yield ValidationError(f"{value!r} does not match {pattern!r}")

        self._validator: Validator = extend(checker, {"pattern": pattern})(schema)  # type: ignore[no-untyped-call] # not typed there
        self._best_match = best_match

    def mismatches(self, value: FieldValue) -> "Iterator[ValidationError]":
        """One error for each place that does not fit the schema."""
        return self._validator.iter_errors(value)

    def mismatch(self, value: FieldValue) -> "ValidationError | None":
        """The most relevant error; None if the value fits."""
        best: ValidationError | None = self._best_match(self.mismatches(value))
        return best
