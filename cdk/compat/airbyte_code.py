"""AirbyteCode: lets a manifest run Python classes that were written for `airbyte_cdk`."""

import os
from pathlib import Path

from msgspec import Struct

from cdk.declarative.model.component import Component
from cdk.declarative.model.context import BuildContext

UNSAFE = "AIRBYTE_ENABLE_UNSAFE_CODE"
"""The environment variable with which existing platforms allow custom code."""


class AirbyteCode(Struct, frozen=True):
    """Builds custom components whose classes extend those of `airbyte_cdk`.

    components: the file of the module `components`; None: it lies beside the manifest.
    """

    components: Path | None = None

    def build(self, component: Component, ctx: BuildContext, *parts: object) -> object:
        from cdk.compat.adapters.registry import build  # noqa: PLC0415 - imports `requests`, only for custom code

        return build(component, ctx, *parts)


def airbyte_code(components: Path | None = None, *, allowed: bool) -> AirbyteCode | None:
    """Return the builder of custom components, or None if neither the user nor the environment allows them."""
    return AirbyteCode(components) if allowed or os.environ.get(UNSAFE, "").lower() == "true" else None
