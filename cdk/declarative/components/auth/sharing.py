"""Authenticators that several streams share, so that each token is asked for once."""

from collections.abc import Callable
from typing import TypeVar

from cdk.base.values import canonical
from cdk.declarative.component import Component
from cdk.declarative.context import BuildContext
from cdk.rest import Authenticator

A = TypeVar("A", bound=Authenticator)


def shared(ctx: BuildContext, key: str, make: Callable[[], A]) -> A:
    """The authenticator that was made first under `key`, for all streams of the source."""
    key = f"authenticator {key}"
    if key not in ctx.runtime.shared:
        ctx.runtime.shared[key] = make()
    found: A = ctx.runtime.shared[key]
    return found


def definition(component: Component, ctx: BuildContext) -> str:
    """A key for components that say the same of the same config."""
    return f"{component.model_dump_json()} {canonical(ctx.config)}"
