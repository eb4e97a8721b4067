"""The places where syncs are killed: in this process, on Spark, on the way from one to the other, on a cluster."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from cdk.spark.cluster import warm_daemon
from tests.spark.local_cluster import cluster, processes

FORK, THREADED = "fork", "threaded"
"""The victims where there is no Spark: tasks take turns with commits, or run beside them."""
DRIVER, JVM, WORKER, EXECUTOR = "driver", "jvm", "worker", "executor"
LATENCY = 0.05
_DAEMONS = ("pyspark.daemon", warm_daemon.__name__)


@dataclass(frozen=True)
class Place:
    """Where the tasks of syncs run, and which of their processes are killed.

    victims: of each kill but the last of a round. last: those of the last, whose deaths a sync may survive.
    kills: of a round, at most.
    start, master: the settings of Spark.
    latency: seconds that each page takes while syncs are killed.
    hands_over: syncs begin in the driver, and Spark joins them.
    cluster: the processes that executors descend from, where that is not the driver.
    """

    victims: Sequence[str]
    last: Sequence[str]
    kills: int
    start: str = "always"
    master: str = "local[2,4]"
    latency: float = LATENCY
    hands_over: bool = False
    cluster: Callable[[], Sequence[int]] = field(default=tuple)

    @property
    def in_forks(self) -> bool:
        """Whether syncs are forks of this program, without Spark."""
        return FORK in self.victims

    def round(self, chance: random.Random) -> Sequence[str]:
        """The victims of a round, in order."""
        return [*(chance.choice(self.victims) for _ in range(self.kills - 1)), chance.choice(self.last)]

    def process(self, driver: int, victim: str) -> int | None:
        """The process to kill: of a sync with this driver; None while there is none."""
        if victim in {DRIVER, FORK, THREADED}:
            return driver
        listed = processes()
        if victim == JVM:
            return next((pid for pid in _family([driver], listed) if "java" in listed[pid][1].split()[0]), None)
        family = _family([driver, *self.cluster()], listed)
        if victim == EXECUTOR:
            return next((pid for pid in family if "CoarseGrainedExecutor" in listed[pid][1]), None)
        daemons = {pid for pid in family if any(daemon in listed[pid][1] for daemon in _DAEMONS)}
        return next((pid for pid in family if listed[pid][0] in daemons and pid not in daemons), None)


HERE = Place(victims=(FORK, THREADED), last=(FORK, THREADED), kills=8)
LOCAL = Place(victims=(DRIVER, JVM), last=(WORKER,), kills=5)
# A page takes so long that Spark joins long before the last.
HAND_OVER = Place(
    victims=(DRIVER,), last=(DRIVER, JVM), kills=2, start="needed", master="local[2]", latency=0.5, hands_over=True
)


@contextmanager
def on_a_cluster(folder: Path) -> Iterator[Place]:
    """Start a cluster of two workers, with its logs in `folder`, and stop it."""
    with cluster(folder) as spark:
        yield Place(
            victims=(DRIVER, JVM), last=(EXECUTOR, WORKER), kills=4, master=spark.address, cluster=spark.workers
        )


PLACES: Mapping[str, Callable[[Path], AbstractContextManager[Place]]] = {
    "here": lambda _: nullcontext(HERE),
    "local": lambda _: nullcontext(LOCAL),
    "hand-over": lambda _: nullcontext(HAND_OVER),
    "cluster": on_a_cluster,
}
"""Each place by its name; where it needs programs of its own, their logs are in the folder."""


def _family(ancestors: Sequence[int], listed: Mapping[int, tuple[int, str]]) -> list[int]:
    """These processes and their descendants, parents first."""
    family = [pid for pid in ancestors if pid in listed]
    for parent in family:
        family.extend(pid for pid, (its, _) in listed.items() if its == parent and pid not in family)
    return family
