"""What the authenticators of a source share: each other, and what is told of the tokens that they learn."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from cdk.base.values import JsonValue, canonical
from cdk.declarative.model.component import Component
from cdk.declarative.model.context import BuildContext
from cdk.rest.auth.oauth2 import Keep
from cdk.rest.http.authenticator import Learn

A = TypeVar("A")


def shared(authenticators: dict[str, A], key: str, make: Callable[[], A]) -> A:
    """The authenticator that was made first under `key`, for all streams of the source."""
    if key not in authenticators:
        authenticators[key] = make()
    return authenticators[key]


def definition(component: Component, ctx: BuildContext) -> str:
    """A key for components that say the same of the same config."""
    return f"{component.model_dump_json()} {canonical(ctx.config)}"


def learner(ctx: BuildContext) -> Learn:
    """Tells the run of a secret. A source may be built again for a shared authenticator, so who is told may change."""

    def learn(secret: str) -> None:
        ctx.runtime.learn(secret)

    return learn


def keeper(ctx: BuildContext) -> Keep:
    """Has values of the config saved; as `learner`."""

    def keep(updates: Mapping[tuple[str, ...], JsonValue]) -> None:
        ctx.runtime.keep(updates)

    return keep
