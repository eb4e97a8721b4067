"""Readers: who read what in a run, this process and Spark."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from cdk.sync.tasks.messages import SliceResult
from cdk.sync.tasks.workers import Workers


@dataclass
class ReadBy:
    """What the tasks of one reader have brought."""

    tasks: int = 0
    slices: int = 0
    """Slices that were read to their end."""
    records: int = 0


@dataclass
class Readers:
    """Who read what. Belongs to the driver's thread."""

    process: ReadBy = field(default_factory=ReadBy)
    spark: ReadBy = field(default_factory=ReadBy)
    version: str = ""
    """The version of Spark; empty where it has read nothing and was not there to."""
    master: str = ""
    """The address of Spark's master."""

    def joined(self, workers: Workers) -> None:
        """Note that tasks run there from now on."""
        self.version, self.master = workers.engine, workers.master

    def add(self, workers: Workers, results: Iterable[SliceResult]) -> None:
        """Count a task that has ended where it ran."""
        reader = self.spark if workers.engine else self.process
        reader.tasks += 1
        for result in results:
            reader.slices += result.done
            reader.records += result.read
