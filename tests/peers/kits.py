"""The same run by DataHub and by this kit: same tables, same options, each with a catalog and a state of its own."""

import base64
import bz2
import json
import os
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from cdk import CdkError
from cdk.base.values import Json, JsonObject
from cdk.state import (
    Kind,
    RedundantRunSkipHandler,
    StaleEntityRemovalHandler,
    StatefulOptions,
    StateKey,
    StateLog,
    open_session,
    open_store,
    stateful_run,
)
from cdk.state.handlers.entity_set import ENTITIES
from tests.state.handlers.sinks import Catalog

PEERS = Path(__file__).parents[2] / ".venv" / "peers"
PYTHON = PEERS / "bin" / "python"
DLT = PEERS.with_name("dlt")
PROGRAM = Path(__file__).with_name("datahub_run.py")
SLOT = "entities:tables"


@dataclass(frozen=True)
class Run:
    """What is asked of a kit. tables: one letter each.

    options: keys of the block `stateful_ingestion` that both kits have. window: a stretch of time whose usage is read
    as well. refused: tables whose removal the sink refuses.
    """

    tables: str
    pipeline: str = "catalog"
    options: Mapping[str, Json] = field(default_factory=dict)
    preview: bool = False
    window: tuple[datetime, datetime] | None = None
    refused: str = ""


@dataclass(frozen=True)
class Outcome:
    """What became of a run. complaint: empty when it succeeded.

    shown: tables that the catalog shows after it. known: tables that the pipeline's state names after it.
    """

    complaint: str
    shown: set[str]
    known: set[str]
    read_usage: bool


class DataHub:
    """DataHub with its file provider, a process for each run, all in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._state = folder / "state.json"

    def run(self, run: Run) -> Outcome:
        provider = {"type": "file", "config": {"filename": str(self._state)}}
        asked = {
            "pipeline": run.pipeline,
            "tables": list(run.tables),
            "options": {"enabled": True, "state_provider": provider, **run.options},
            "preview": run.preview,
            "window": run.window and [moment.isoformat() for moment in run.window],
            "refused": list(run.refused),
        }
        answer = subprocess.run(
            [PYTHON, PROGRAM, json.dumps(asked)],
            cwd=self._folder,
            # Its home is here as well: DataHub keeps a file of settings there.
            env={"PATH": os.environ["PATH"], "HOME": str(self._folder), "DATAHUB_TELEMETRY_ENABLED": "false"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert answer.returncode == 0, answer.stderr
        said = json.loads(answer.stdout)
        complaints = said["complaints"]
        assert said["status"] == "COMPLETED" or complaints, said
        catalog: dict[str, bool] = json.loads((self._folder / "catalog.json").read_text())
        shown = {table for table, there in catalog.items() if there}
        return Outcome("; ".join(complaints), shown, self._known(run.pipeline), said["read_usage"])

    def claim_a_newer_version(self) -> None:
        """Have the stored state say that a DataHub of the future wrote it."""
        checkpoints = json.loads(self._state.read_text())
        for checkpoint in checkpoints:
            checkpoint["aspect"]["json"]["state"]["formatVersion"] = "9.9"
        self._state.write_text(json.dumps(checkpoints))

    def _known(self, pipeline: str) -> set[str]:
        checkpoints = json.loads(self._state.read_text()) if self._state.exists() else []
        for checkpoint in checkpoints:
            aspect = checkpoint["aspect"]["json"]
            if aspect["pipelineName"] == pipeline and "stale_entity_removal" in checkpoint["entityUrn"]:
                state = json.loads(bz2.decompress(base64.b85decode(aspect["state"]["payload"])))
                return {urn.split(",")[1] for urn in state["urns"]}
        return set()


class Here:
    """This kit with its local store, as the how-to pages say: what is written was remembered before."""

    def __init__(self, folder: Path) -> None:
        self._provider: JsonObject = {"type": "local", "config": {"path": str(folder / "state")}}
        self._catalog = Catalog()

    def run(self, run: Run) -> Outcome:
        self._catalog.stubborn = set(run.refused)
        complaint, read_usage = "", False
        try:
            read_usage = self._read(run)
        except CdkError as error:
            complaint = str(error)
        return Outcome(complaint, self._catalog.shown, self._known(run.pipeline), read_usage)

    def claim_a_newer_version(self) -> None:
        """Have the stored state say that a kit of the future wrote it."""
        log = self._log("catalog")
        with open_session(log) as session:
            newer = Kind(ENTITIES.name, ENTITIES.version + 1)
            session.propose(SLOT, newer.of(session.read(SLOT, ENTITIES)))
            session.commit("final")

    def _read(self, run: Run) -> bool:
        """One run as people write it; whether it read usage."""
        options = StatefulOptions.parse({"enabled": True, "state_provider": self._provider, **run.options})
        log = options.open_log(StateKey(run.pipeline), preview=run.preview)
        with stateful_run(log, options, preview=run.preview) as opened:
            stale = StaleEntityRemovalHandler(opened, "tables")
            usage = RedundantRunSkipHandler(opened, "usage")
            tables = list(stale.watch(run.tables, id=str))
            stale.remember()
            opened.session.commit("partial")
            for table in tables:
                self._catalog.write(table)
            planned = usage.plan(*run.window) if run.window else None
            if planned:
                usage.update_state(planned)
            stale.reconcile(self._catalog)
            opened.session.commit("final")
        return planned is not None and not planned.skip

    def _known(self, pipeline: str) -> set[str]:
        log = self._log(pipeline)
        head = log.head()
        return set(log.value(head, SLOT).value["scopes"][""]["ids"]) if head else set()

    def _log(self, pipeline: str) -> StateLog:
        return StateLog(open_store(self._provider), StateKey(pipeline))


class Outcomes(NamedTuple):
    """What became of the same run."""

    theirs: Outcome
    ours: Outcome


class Both:
    """Both kits, side by side."""

    def __init__(self, folder: Path) -> None:
        for name in ("there", "here"):
            (folder / name).mkdir()
        self._there, self._here = DataHub(folder / "there"), Here(folder / "here")

    def run(self, run: Run) -> Outcomes:
        """The outcomes of a run."""
        return Outcomes(self._there.run(run), self._here.run(run))

    def runs(self, runs: Iterable[Run]) -> Outcomes:
        """The outcomes of the last of several runs."""
        *before, last = runs
        for run in before:
            self.run(run)
        return self.run(last)

    def claim_a_newer_version(self) -> None:
        self._there.claim_a_newer_version()
        self._here.claim_a_newer_version()
