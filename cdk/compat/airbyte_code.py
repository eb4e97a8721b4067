"""AirbyteCode: lets a manifest run Python classes that were written for `airbyte_cdk`."""

import os
from dataclasses import dataclass
from pathlib import Path

from cdk.declarative.model.component import Component
from cdk.declarative.model.context import BuildContext

UNSAFE = "AIRBYTE_ENABLE_UNSAFE_CODE"
"""The variable by which existing platforms allow it."""


@dataclass(frozen=True)
class AirbyteCode:
    """The CustomCode of classes that extend those of `airbyte_cdk`."""

    components: Path | None = None

    def build(self, component: Component, ctx: BuildContext, *parts: object) -> object:
        from cdk.compat.adapters.registry import build  # noqa: PLC0415 - brings `requests`, which only custom code needs

        return build(component, ctx, *parts)


def airbyte_code(components: Path | None = None, *, allowed: bool) -> AirbyteCode | None:
    """What builds custom components; None where neither the user nor the environment allows them."""
    return AirbyteCode(components) if allowed or os.environ.get(UNSAFE, "").lower() == "true" else None
