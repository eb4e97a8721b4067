"""What the authenticators of a source share: each other, and what is told of the tokens that they learn."""

from collections.abc import Callable, Mapping

from cdk.base.values import JsonValue, canonical
from cdk.declarative.model.component import Component
from cdk.declarative.model.context import BuildContext
from cdk.rest import Authenticator
from cdk.rest.auth.oauth2 import Keep, OAuth2
from cdk.rest.auth.token_owner import report
from cdk.rest.http.authenticator import Learn


def shared(ctx: BuildContext, key: str, make: Callable[[], Authenticator]) -> Authenticator:
    """The authenticator that was made first under `key`, for all streams of the source."""
    authenticators = ctx.runtime.authenticators
    if key not in authenticators:
        authenticators[key] = make()
    authenticator = authenticators[key]
    if isinstance(authenticator, OAuth2):
        report(authenticator)
    return authenticator


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
