"""Durations of manifests."""

from cdk.base.errors import ManifestError
from cdk.base.times.iso_durations import Duration
from cdk.base.times.iso_durations import parse_duration as parse


def parse_duration(text: str, where: str) -> Duration:
    """The duration that `text` names (`P1D`, `PT1H`, `P1M`). Raises ManifestError at `where`: it names none."""
    try:
        return parse(text)
    except ValueError:
        raise ManifestError(f"{where}: found {text!r}, expected a duration such as P1D, PT1H or P1M") from None
