"""Finds the `Source` that a name or a path stands for, and validates its config against its schema.

`sources.manifest_source` is imported on first use: importing the manifest language takes half of a command's time.
"""

from typing import TYPE_CHECKING

from cdk.base.first_use import lazy_names

if TYPE_CHECKING:  # importing it at run time would import the manifest language
    from cdk.sources.manifests import manifest_source

__all__ = ["manifest_source"]

if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__)
