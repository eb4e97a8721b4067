"""The components of the manifest language, one family a file. All modules in here are imported to register them."""

from importlib import import_module
from pkgutil import walk_packages


def register() -> None:
    """Make every component known by its type."""
    for module in walk_packages(__path__, f"{__name__}."):
        import_module(module.name)
