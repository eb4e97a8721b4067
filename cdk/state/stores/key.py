"""StateKey: the pipeline that a state log belongs to."""

import re

from msgspec import Struct

from cdk.base.errors import ConfigError

STATE_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")
"""Matches names that stores can use in paths."""


class StateKey(Struct, frozen=True, order=True):
    """The identity of a log: a pipeline's name inside a namespace. Set by a person, never generated.

    Both are 1 to 200 letters, digits, `.`, `_` and `-`, not starting with a dot, because stores use them in paths.
    Raises ConfigError: when one of them is anything else.
    """

    pipeline: str
    namespace: str = "default"

    def __post_init__(self) -> None:
        for what, name in (("namespace", self.namespace), ("pipeline", self.pipeline)):
            if not STATE_NAME.fullmatch(name):
                raise ConfigError(
                    f"found the {what} {name!r}, expected 1 to 200 letters, digits, '.', '_' and '-', no '.' first",
                    path="state",
                )

    def __str__(self) -> str:
        return f"{self.namespace}/{self.pipeline}"
