"""Loads the Source of a manifest. Imports the whole manifest language, so import this module only for manifests."""

from pathlib import Path

from cdk.compat.airbyte_code import airbyte_code
from cdk.declarative.source import ManifestSource
from cdk.streams.source import Source


def manifest_source(path: Path, *, trusted: bool = False, components: Path | None = None) -> Source:
    """Return the source of a manifest.

    trusted: whether custom code that it names may run. components: the file of that code.
    Raises ManifestError: listing every error in the manifest.
    """
    return ManifestSource.load(path, custom=airbyte_code(components, allowed=trusted))
