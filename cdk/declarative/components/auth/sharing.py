"""What the authenticators of a source share: one another, and the callbacks for the tokens that they obtain."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from cdk.base.values import JsonValue, canonical
from cdk.declarative.model.component import Component
from cdk.declarative.model.context import BuildContext
from cdk.rest.auth.oauth2 import SaveTokens
from cdk.rest.http.authenticator import Learn

A = TypeVar("A")


def shared(authenticators: dict[str, A], key: str, make: Callable[[], A]) -> A:
    """Return the authenticator first made under `key`, which all streams of the source share."""
    if key not in authenticators:
        authenticators[key] = make()
    return authenticators[key]


def definition(component: Component, ctx: BuildContext) -> str:
    """Return a key that is equal for components with the same definition and config."""
    return f"{component!r} {canonical(ctx.config)}"


def secret_recorder(ctx: BuildContext) -> Learn:
    """Return a callback that reports a secret to the run; reads the receiver late, as a rebuilt source replaces it."""

    def learn(secret: str) -> None:
        ctx.runtime.learn(secret)

    return learn


def config_saver(ctx: BuildContext) -> SaveTokens:
    """Return a callback that saves values of the config; reads the receiver late, as `secret_recorder` does."""

    def save(updates: Mapping[tuple[str, ...], JsonValue]) -> None:
        ctx.runtime.save_config(updates)

    return save
