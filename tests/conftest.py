"""One Spark session for all tests of a process; syncs find it as the active one."""

import gc
import os
import re
import signal
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from pyspark.sql import SparkSession
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling, LoadScopeScheduling

from cdk.spark.cluster.session import open_session
from cdk.sync.settings.pipeline_file import SparkOptions
from tests.spark import class_archive

TESTS = Path(__file__).parent
LONGEST = ("spark/test_cluster.py", "spark/test_kill.py", "worlds/", "spark/cluster/test_connect_session.py")
"""Files and folders whose tests take longest, the longest first."""

USES_SESSION = re.compile(r'\bsession: SparkSession|usefixtures\(.*"session"')
"""A test of the file uses the fixture: one process runs all such files, so that it starts Spark once."""


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    log: Path = tmp_path_factory.mktemp("spark") / "spark.log"
    session = open_session("tests", SparkOptions(master="local[2,4]"), log)
    yield session
    session.stop()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder for a table that does not exist yet."""
    return tmp_path / "lake" / "users"


def pytest_configure() -> None:
    """Let every Java that the tests start begin soon, Ctrl-C end what they start, and no example have a deadline."""
    os.environ.setdefault(class_archive.OPTIONS, class_archive.quick_java())
    # A test may begin a Spark in its own folder, where workers would find no module of the tests that come later.
    root, others = str(Path(__file__).parents[1]), filter(None, [os.environ.get("PYTHONPATH")])
    os.environ["PYTHONPATH"] = os.pathsep.join([root, *others])
    # A shell that runs the tests in its background has them ignore Ctrl-C, and the commands that they start would, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Hypothesis would fail an example that takes 200 ms, which any may on a machine that is busy.
    # So it would where one is slow to draw.
    untimed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile("untimed", untimed)
    settings.load_profile("untimed")
    # For `--hypothesis-profile=unshrunk`, which the plugin of Hypothesis loads after this.
    settings.register_profile("unshrunk", untimed, phases=[Phase.explicit, Phase.generate], database=None)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name a case with bytes after its argument: packed bytes hold the time, and processes that share tests compare."""
    return argname if isinstance(val, bytes) else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage while the tests are collected: it is a third of the processor time that they would take."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    return _FilesAndSession(config, log)


class _FilesAndSession(LoadFileScheduling):  # type: ignore[misc]  # it has no types
    """Gives each process whole files in the order in which they were collected, and one process all of the session."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return "session" if _turn(self.config.rootpath / file) == 0 else file


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest: the files that use the session, and other long ones."""
    assert all((TESTS / name).exists() for name in LONGEST)
    items.sort(key=lambda item: _turn(item.path))


@cache
def _turn(file: Path) -> int:
    path = file.relative_to(TESTS).as_posix()
    # A long file stays on its own: what its other tests start for all of them takes longer than a session.
    long = next((turn for turn, name in enumerate(LONGEST, 1) if path.startswith(name)), None)
    return long or (0 if USES_SESSION.search(file.read_text()) else len(LONGEST) + 1)
