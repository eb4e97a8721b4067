"""Spec files: `spec.yaml` or `spec.json` next to a manifest without a `spec` of its own."""

from pathlib import Path

from cdk.base.documents import read_document
from cdk.base.errors import ConfigError, ManifestError
from cdk.base.values import as_object
from cdk.declarative.components.streams.source import Spec

_NAMES = ("spec.yaml", "spec.json")


def spec_beside(folder: Path) -> Spec | None:
    """Return the spec from a file in this folder; None if there is no such file.

    Raises ManifestError: when both files exist, or a file is not a spec as the protocol defines it.
    Airbyte: the same. Manifests without a spec rely on it: fields that it marks as secret are masked.
    """
    files = [file for name in _NAMES if (file := folder / name).is_file()]
    if len(files) > 1:
        raise ManifestError(f"found {' and '.join(_NAMES)}, expected one of them; remove the other", path=str(folder))
    return _spec(files[0]) if files else None


def _spec(file: Path) -> Spec:
    try:
        fields = as_object(read_document(file))
    except ConfigError as error:
        raise ManifestError.of(error) from error
    schema, auth = fields.get("connectionSpecification"), fields.get("advanced_auth")
    url = fields.get("documentationUrl")
    if not isinstance(schema, dict):
        raise ManifestError(
            "expected an object with `connectionSpecification`, the schema of the config", path=str(file)
        )
    # Not validated: a platform gets the credentials of a spec file as they are written, without defaults of manifests.
    return Spec(
        connection_specification=schema,
        documentation_url=None if url is None else str(url),
        advanced_auth=auth if isinstance(auth, dict) else None,
    )
