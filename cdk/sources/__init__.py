"""From what a person calls a connector to its `Source`; its config against its schema.

`sources.manifest_source` is imported when it is first used: the manifest language is half of the time of a command.
"""

from typing import TYPE_CHECKING

from cdk.base.lazy_names import lazy_names

if TYPE_CHECKING:  # importing it at run time would import the manifest language
    from cdk.sources.manifests import manifest_source

__all__ = ["manifest_source"]

if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__)
