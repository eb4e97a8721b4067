"""Loads the Source of a manifest. Imports the whole manifest language, so import this module only for manifests."""

import os
from pathlib import Path

from msgspec import Struct

from cdk.declarative.model.component import Component
from cdk.declarative.model.context import BuildContext
from cdk.declarative.source import ManifestSource
from cdk.streams.source import Source

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


def manifest_source(path: Path | str, *, trusted: bool = False, components: Path | str | None = None) -> Source:
    """Return the source of a manifest.

    trusted: whether custom code that it names may run. components: the file of that code.
    Raises ManifestError: listing every error in the manifest.
    """
    code = airbyte_code(None if components is None else Path(components), allowed=trusted)
    return ManifestSource.load(Path(path), custom=code)
