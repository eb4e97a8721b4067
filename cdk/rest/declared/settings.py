"""Settings of an authenticator: those that have placeholders of the config, and it with the config's values."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace

from cdk.rest.declared.placeholders import Placeholder, Values, filled, placeholders
from cdk.rest.http.authenticator import Authenticator


def settings_of(auth: Authenticator | None) -> Iterator[Placeholder]:
    """The placeholders of an authenticator."""
    if auth is not None and is_dataclass(auth):
        for each in fields(auth):
            yield from placeholders(getattr(auth, each.name))


def with_settings(auth: Authenticator, values: Values) -> Authenticator:
    """A new authenticator with values in place of placeholders; those of one login share what they learn."""
    if not is_dataclass(auth):
        return auth
    own = {each.name: getattr(auth, each.name) for each in fields(auth) if each.init}
    return replace(auth, **{name: filled(value, values) for name, value in own.items() if any(placeholders(value))})
