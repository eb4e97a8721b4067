"""Which features of the kit each version of Spark supports. Only this module knows versions.

Call `require` before importing what an older pyspark does not have.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct

from cdk.base.errors import ConfigError

Version: TypeAlias = tuple[int, int]
"""The first two numbers of a version."""

VERSIONS: tuple[Version, ...] = ((3, 5), (4, 0), (4, 1), (4, 2), (4, 3))
"""The versions that the kit is tested with."""


class Ability(StrEnum):
    """A feature of the kit that depends on Spark's version, as users write it."""

    SYNC = "sync"
    CONNECT = "Spark Connect"
    READ = 'spark.read.format("cdk")'
    PUSH_DOWN = "push_down"
    STREAM = 'spark.readStream.format("cdk")'
    JAVA_24 = "Java 24 or newer"


class Need(Struct, frozen=True):
    """The first version with an ability, what earlier versions lack, and what to do with these."""

    since: Version
    lack: str = ""
    instead: str = ""


NEEDS: Mapping[Ability, Need] = {
    Ability.SYNC: Need(VERSIONS[0]),
    Ability.CONNECT: Need((4, 0), "has no server for it", "use a session with a JVM of its own"),
    Ability.READ: Need((4, 0), "has no data sources in Python", "use SyncRunner, and read the tables that it writes"),
    Ability.PUSH_DOWN: Need((4, 1), "does not pass filters to a data source", "leave out the option push_down"),
    Ability.STREAM: Need(
        (4, 2), "passes no offsets to a data source", "use spark.read with the option state, or a sync"
    ),
    Ability.JAVA_24: Need((4, 1)),  # `java_home` raises its own message
}


def can(version: Version, ability: Ability) -> bool:
    """Whether a version of Spark has an ability."""
    return version >= NEEDS[ability].since


def installed_version() -> str:
    """Return the version of the installed pyspark. Raises ConfigError: when it is not installed."""
    try:
        import pyspark  # noqa: PLC0415 - a sync in this process runs without it
    except ImportError as error:
        raise ConfigError("pyspark is not installed: install it, or set spark.start: never") from error
    return pyspark.__version__


def require(ability: Ability, installed: str | None = None) -> None:
    """Raise ConfigError when the installed pyspark lacks an ability, with what it lacks and what to do."""
    need = NEEDS[ability]
    installed = installed or installed_version()
    if not can(version_of(installed), ability):
        raise ConfigError(
            f"{ability} needs pyspark {need.since[0]}.{need.since[1]} or newer, found {installed}, "
            f"which {need.lack}; install a newer one, or {need.instead}"
        )


def version_of(text: str) -> Version:
    """Parse the first two numbers of a version such as `4.1.0.dev2`. Raises ConfigError: when there are none."""
    if (match := re.match(r"(\d+)\.(\d+)", text)) is None:
        raise ConfigError(f"found pyspark version {text!r}, expected one such as 4.1.0")
    return int(match[1]), int(match[2])
