"""What of the kit each version of Spark can do: the one module that knows versions.

`require` comes before what an older pyspark does not have is imported.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from cdk.base.errors import ConfigError

Version: TypeAlias = tuple[int, int]
"""The first two numbers of a version."""

VERSIONS: tuple[Version, ...] = ((3, 5), (4, 0), (4, 1), (4, 2), (4, 3))
"""Those that the kit is tested with."""


class Ability(StrEnum):
    """What the kit offers, as people write it."""

    SYNC = "sync"
    CONNECT = "Spark Connect"
    READ = 'spark.read.format("cdk")'
    PUSH_DOWN = "push_down"
    STREAM = 'spark.readStream.format("cdk")'
    JAVA_24 = "Java 24 or newer"


@dataclass(frozen=True)
class Need:
    """Since which version there is an ability, what earlier ones lack, and what to do with these."""

    since: Version
    lack: str = ""
    instead: str = ""


NEEDS: Mapping[Ability, Need] = {
    Ability.SYNC: Need(VERSIONS[0]),
    Ability.CONNECT: Need((4, 0), "comes without a server for it", "use a session with a JVM of its own"),
    Ability.READ: Need((4, 0), "has no data sources in Python", "use SyncRunner, and read the tables that it writes"),
    Ability.PUSH_DOWN: Need((4, 1), "shows a data source no filters", "leave out the option push_down"),
    Ability.STREAM: Need(
        (4, 2), "does not tell a data source where a query stands", "use spark.read with the option state, or a sync"
    ),
    Ability.JAVA_24: Need((4, 1)),  # `java_home` has a text of its own
}


def can(version: Version, ability: Ability) -> bool:
    """Whether a version of Spark has an ability."""
    return version >= NEEDS[ability].since


def installed_version() -> str:
    """The version of the pyspark that is installed. Raises ConfigError: none is."""
    try:
        import pyspark  # noqa: PLC0415 - a sync in this process runs without it
    except ImportError as error:
        raise ConfigError("pyspark is not installed: install it, or set spark.start: never") from error
    return pyspark.__version__


def require(ability: Ability, installed: str | None = None) -> None:
    """Raise ConfigError where the pyspark that is installed lacks an ability: what, which, and what to do."""
    need = NEEDS[ability]
    installed = installed or installed_version()
    if not can(version_of(installed), ability):
        raise ConfigError(
            f"{ability} needs pyspark {need.since[0]}.{need.since[1]} or newer, and found {installed}, "
            f"which {need.lack}; install a newer one, or {need.instead}"
        )


def version_of(text: str) -> Version:
    """The first two numbers of `4.1.0.dev2`. Raises ConfigError: there are none."""
    if (match := re.match(r"(\d+)\.(\d+)", text)) is None:
        raise ConfigError(f"found a pyspark of the version {text!r}, expected one that begins as 4.1 does")
    return int(match[1]), int(match[2])
