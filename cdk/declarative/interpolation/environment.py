"""The sandboxed Jinja environment, which limits what expressions may do. Imports Jinja; import this module lazily."""

from collections.abc import Callable
from contextvars import ContextVar
from functools import lru_cache

from jinja2.runtime import Context
from jinja2.sandbox import SandboxedEnvironment

from cdk.declarative.interpolation.filters import FILTERS
from cdk.declarative.interpolation.limits import BINARY, GROWING, EvaluationBudget, check_call, guarded, measure, sized
from cdk.declarative.interpolation.macros import build_macros


class _Environment(SandboxedEnvironment):
    intercepted_binops = frozenset(BINARY)

    def is_safe_attribute(self, obj: object, attr: str, value: object) -> bool:
        # Manifests also access the fields of a slice's partition by this name; no other object has the attribute.
        return attr == "_partition" or super().is_safe_attribute(obj, attr, value)

    def call_binop(self, context: Context, operator: str, first: object, second: object) -> object:  # noqa: ARG002
        return BINARY[operator](first, second)

    def call(__self, __context: Context, __obj: object, *args: object, **kwargs: object) -> object:  # noqa: N805, PYI063 - Jinja's
        # The sandbox wraps `format`; the wrapped method holds the string that it formats.
        subject = getattr(getattr(__obj, "__wrapped__", __obj), "__self__", None)
        name = getattr(__obj, "__name__", "")
        if name in GROWING:
            check_call(name, subject, [*args, *kwargs.values()])
        if (limit := budget.get()) is not None:
            limit.call(measure([args, list(kwargs.values())]))
        result = sized(super().call(__context, __obj, *args, **kwargs))
        # A call may have extended the list or map it was made on, even with its own elements.
        sized(subject)
        return result


@lru_cache(maxsize=1)
def environment() -> SandboxedEnvironment:
    """Return the shared environment. Without `range` and `lipsum`; nothing is evaluated during compilation."""
    env = _Environment(autoescape=False, optimized=False, finalize=_checked_output)
    for name in ("range", "lipsum"):
        del env.globals[name]
    env.globals.update(build_macros())
    env.filters.update(FILTERS)
    for name, call in env.filters.items():
        env.filters[name] = _passing(call, guarded(name, call))
    return env


budget: ContextVar[EvaluationBudget | None] = ContextVar("budget", default=None)
"""The budget of the template that Jinja evaluates in this context."""


def _checked_output(value: object) -> object:
    """Return the value to be written into a text, unless it is huge."""
    size = measure(value)
    if (limit := budget.get()) is not None:
        limit.spend(size * 100)
    return value


def _passing(original: Callable[..., object], guarded: Callable[..., object]) -> Callable[..., object]:
    """Copy Jinja's marks from the original filter, such as whether it takes the environment as its first argument."""
    guarded.__dict__.update(getattr(original, "__dict__", {}))
    return guarded
