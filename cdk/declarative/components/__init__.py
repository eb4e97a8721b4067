"""The components of the manifest language, one family a file.

A file is imported when a manifest names one of its classes: importing all took a third of the time of `spec`.
"""

from functools import cache
from pkgutil import get_data, walk_packages

from cdk.base.first_use import lazy_pattern
from cdk.declarative.model.component import Component

# No multi-line `^`: the regex engine would try it at each character, which takes twenty times as long.
_CLASS = lazy_pattern(r"\nclass (\w+)")


@cache
def register() -> None:
    """Register every component under its type, the name of its class, without importing it."""
    for module in walk_packages(__path__, f"{__name__}."):
        if not module.ispkg:
            package, _, name = module.name.rpartition(".")
            # Not from the path: on Spark's executors the kit may be inside an archive.
            source = get_data(package, f"{name}.py") or b""
            Component.registry.expect(module.name, _CLASS.findall(source.decode()))
