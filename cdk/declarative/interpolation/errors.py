"""ExpressionError: an expression of a manifest is wrong, or failed on the values it met."""

from typing import ClassVar

from cdk.base.errors import FailureType, FatalError, ManifestError
from cdk.base.wording import cut

_SHOWN = 200


class ExpressionError(ManifestError):
    """An expression cannot be compiled or evaluated. Built from facts: where, which expression, why.

    incomparable: it met values that cannot be compared or combined.
    Names the expression as the manifest has it and never a value it met: a config holds secrets.
    """

    def __init__(self, where: str, expression: str, why: str, *, incomparable: bool = False) -> None:
        super().__init__(f"expression {cut(expression, _SHOWN)!r}: {why}", path=where)
        self.expression = expression
        self.why = why
        self.incomparable = incomparable


class EvaluationError(ExpressionError, FatalError):
    """An expression failed on the values it met.

    What it met may be the API's doing, and of one slice: the slices after it are read, as after what the API refuses.
    """

    failure_type: ClassVar[FailureType] = "system_error"


class Refused(Exception):
    """What a macro, a filter or a guard does not accept; its text holds no value of the scope."""
