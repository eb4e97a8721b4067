"""A real Buildbot on a port of its own: builds that are started and end when a test says so."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import requests

from cdk import Record
from tests.servers.process import serving

CONFIG = """
from buildbot.plugins import schedulers, steps, util, worker

def builder(name, *commands):
    run = [steps.ShellCommand(command=["sh", "-c", each], name=each, logEnviron=False) for each in commands]
    return util.BuilderConfig(name=name, workernames=["here"], factory=util.BuildFactory(run))

BuildmasterConfig = {
    "workers": [worker.LocalWorker("here")],
    "protocols": {"pb": {"port": "tcp:0:interface=127.0.0.1"}},
    "builders": [
        builder("kit", "true", "false"),
        builder("docs", "true"),
        builder("slow", "until test -e ../../../../go; do sleep 0.05; done"),
    ],
    "schedulers": [schedulers.ForceScheduler(name="force", builderNames=["kit", "docs", "slow"])],
    "collapseRequests": False,
    "www": {"port": "tcp:0:interface=127.0.0.1", "plugins": {}},
    "buildbotURL": "http://127.0.0.1/",
    "buildbotNetUsageData": None,
    "db": {"db_url": "sqlite://"},
}
"""
TAC = """
from twisted.application import service
from buildbot.master import BuildMaster

application = service.Application('buildmaster')
BuildMaster({folder!r}, "master.cfg", umask=None).setServiceParent(application)
"""


class Buildbot:
    """A server that runs, and its folder."""

    def __init__(self, folder: Path, port: str) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._folder = folder

    def start_build(self, builder: str) -> None:
        """Have a builder begin a build; one of `slow` ends once `release` was called."""
        call = {"jsonrpc": "2.0", "method": "force", "id": 1, "params": {"builderNames": [builder]}}
        requests.post(f"{self.url}/api/v2/forceschedulers/force", json=call, timeout=30).raise_for_status()

    def release(self) -> None:
        (self._folder / "go").touch()

    def wait_for(self, builds: int, *, begun: bool = False) -> None:
        """Return once so many builds have ended, or have begun."""
        for _ in range(10_000):
            if len(self.shown("builds") if begun else self.ended("builds")) == builds:
                return
        raise AssertionError(f"there are never {builds} builds that have {'begun' if begun else 'ended'}")

    def ended(self, path: str) -> list[Record]:
        """What the server shows in one go, without what has not ended."""
        return [each for each in self.shown(path) if each["complete"]]

    def shown(self, path: str) -> list[Record]:
        """What the server shows in one go."""
        page = requests.get(f"{self.url}/api/v2/{path}", timeout=30)
        page.raise_for_status()
        return list(page.json()[path.rpartition("/")[2]])


@contextmanager
def building(folder: Path) -> Iterator[Buildbot]:
    """Run a server in a folder until the block ends."""
    (folder / "master.cfg").write_text(CONFIG)
    (folder / "buildbot.tac").write_text(TAC.format(folder=str(folder)))
    program = str(Path(sys.executable).with_name("twistd"))
    command = [program, "--nodaemon", "--pidfile=", "--logfile=-", f"--python={folder}/buildbot.tac"]
    # When it is asked to end, it waits for builds and connections.
    with serving(command, r"BuildbotSite starting on (\d+)", signal.SIGKILL) as port:
        server = Buildbot(folder, port)
        try:
            yield server
        finally:
            server.release()
