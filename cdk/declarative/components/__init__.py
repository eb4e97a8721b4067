"""The components of the manifest language, one family a file.

A file is imported when a manifest names a class of it: importing all of them took a third of the time of `spec`.
"""

import re
from functools import cache
from pkgutil import get_data, walk_packages

from cdk.declarative.model.component import Component

# No multi-line `^`: that is tried at each character, which takes twenty times as long.
_CLASS = re.compile(r"\nclass (\w+)")


@cache
def register() -> None:
    """Make every component known by its type, the name of its class, without importing it."""
    for module in walk_packages(__path__, f"{__name__}."):
        if not module.ispkg:
            package, _, name = module.name.rpartition(".")
            # Not from the path: Spark's executors may have the kit in an archive.
            source = get_data(package, f"{name}.py") or b""
            Component.registry.expect(module.name, _CLASS.findall(source.decode()))
