"""Low-code connectors: from a manifest to its Source. Brings the whole manifest language: only manifests need it."""

from pathlib import Path

from cdk.compat.airbyte_code import airbyte_code
from cdk.declarative.source import ManifestSource
from cdk.streams.source import Source


def manifest_source(path: Path, *, trusted: bool = False, components: Path | None = None) -> Source:
    """The source of a manifest. trusted: code that it names may run; components: where that code is.

    Raises ManifestError with every place that is wrong.
    """
    return ManifestSource.load(path, custom=airbyte_code(components, allowed=trusted))
