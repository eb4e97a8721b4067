"""ExpressionError: an expression of a manifest is invalid, or failed on the values it read."""

from typing import ClassVar

from cdk.base.errors import FailureType, FatalError, ManifestError
from cdk.base.wording import cut

_SHOWN = 200


class ExpressionError(ManifestError):
    """An expression cannot be compiled or evaluated. Built from facts: where, which expression, why.

    incomparable: it read values that cannot be compared or combined.
    The message quotes the expression as written in the manifest and never a value it read: a config holds secrets.
    """

    def __init__(self, where: str, expression: str, why: str, *, incomparable: bool = False) -> None:
        super().__init__(f"expression {cut(expression, _SHOWN)!r}: {why}", path=where)
        self.expression = expression
        self.why = why
        self.incomparable = incomparable


class EvaluationError(ExpressionError, FatalError):
    """An expression failed on the values it read.

    The API may have caused this, and for one slice only, so later slices are still read, as after a request that the
    API refuses.
    """

    failure_type: ClassVar[FailureType] = "system_error"


class Refused(Exception):
    """A macro, a filter or a guard rejects its input; the message holds no value of the scope."""
