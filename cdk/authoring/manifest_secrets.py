"""Find credentials that a manifest contains in plain text instead of an expression that reads the config."""

from collections.abc import Iterator, Mapping

from cdk.base.secret_masking import SHORTEST
from cdk.base.secret_names import surely_secret
from cdk.base.values import JsonValue, Keys
from cdk.declarative.components import register
from cdk.declarative.model.component import Component
from cdk.declarative.model.field_shapes import fields_of

_EXPRESSIONS = ("{{", "{%")


def plain_secrets(manifest: JsonValue) -> Iterator[tuple[Keys, str]]:
    """Yield the texts of a manifest that are secrets and not expressions, each with its place.

    Components declare which of their fields are secret. Other values, such as headers and parameters, are judged by
    name.
    """
    register()
    if isinstance(manifest, Mapping):
        # A spec contains names of secrets, and their descriptions for a form.
        yield from _below({name: part for name, part in manifest.items() if name != "spec"}, ())


def _below(value: JsonValue, keys: Keys) -> Iterator[tuple[Keys, str]]:
    match value:
        case Mapping():
            kind = value.get("type")
            model = Component.registry.get(kind) if isinstance(kind, str) else None
            for name, part in value.items():
                if model is not None and name in fields_of(model):
                    yield from _texts(part, (*keys, name)) if name in model.secret_fields else ()
                elif surely_secret(name) and isinstance(part, str):
                    yield from _texts(part, (*keys, name))
                yield from _below(part, (*keys, name))
        case list():
            for number, part in enumerate(value):
                yield from _below(part, (*keys, number))
        case _:
            pass


def _texts(value: JsonValue, keys: Keys) -> Iterator[tuple[Keys, str]]:
    """Yield the texts of a secret field: the text itself, or those of a list."""
    match value:
        case str() if len(value) >= SHORTEST and not any(sign in value for sign in _EXPRESSIONS):
            yield keys, value
        case list():
            for number, part in enumerate(value):
                yield from _texts(part, (*keys, number))
        case _:
            pass
