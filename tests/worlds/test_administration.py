"""However a pipeline is administered, its table has the rows that a model expects, and `verify` foretells each sync."""

import json
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cdk import Json
from tests.samples import moment
from tests.worlds.administered import KINDS, OPTIONS, SECRET, Covered, Owner, World

Act: TypeAlias = tuple[Json, ...]


class Run(World):
    """A world as it goes on. Each act is a method; what another engine does begins with `other`."""

    def sync(self, name: str = "shop") -> None:
        owner = self.owners[name]
        if self._is_newcomer(owner):
            return
        verified = self.state("verify", owner=name) if self.exists else None
        before, covered = self.rows, self._begin(owner)
        report = self.sync_to(name)
        assert report is not None
        if verified is not None and verified.code:
            # Nothing but the damage that `verify` names keeps a sync from its end, and what it advises helps.
            assert report.failure is not None, verified.text
            assert self.verb("reset", owner=name)
            owner.now = Covered()
            self.follow()
            self.sync(name)
            return
        assert report.failure is None, report.failure
        self.follow(name)
        self.check_sync(before, covered, ended=True)
        # Where a state has forgotten the records at its cursor, they come again, once time has passed.
        loose = {key for key in covered.maybe if self.rows[key] == before[key] and self.hours[key[1]] == self.hours[-1]}
        owner.now = Covered(self.keys - loose, loose)
        if self.exists:
            version = self.table.version()
            owner.versions[version] = deepcopy(owner.now)
            if (number := self.shown(name)["number"]) is not None:
                owner.states[number] = deepcopy(owner.now)

    def cut(self, point: str, time: int, name: str = "shop") -> None:
        owner = self.owners[name]
        if self._is_newcomer(owner) or (self.exists and self.state("verify", owner=name).code):
            return
        before, covered = self.rows, self._begin(owner)
        earlier = self.shown(name).get("sync") if self.exists else None
        killed = self.sync_to(name, point, time) is None
        owner.killed = self.shown(name).get("sync", "") if killed and self.exists else ""
        if owner.killed == earlier:  # no commit is of the sync that was killed
            owner.killed = ""
        self.follow(name)
        self.check_sync(before, covered, ended=False)

    def _is_newcomer(self, owner: Owner) -> bool:
        """Whether the pipeline has no state beside rows of the other: an appending sync would be refused."""
        return owner.now is None and any(other.states for other in self.owners.values() if other is not owner)

    def _begin(self, owner: Owner) -> Covered:
        shown = self.shown(owner.name) if self.exists else {"complete": False}
        if owner.now is None:
            owner.now = Covered()
        elif self.kind == "paged" and shown["complete"]:
            # A full refresh begins again, unless its sync was killed after its last commit: the next one ends that.
            owner.now = Covered(self.keys if owner.killed and shown["sync"] == owner.killed else set())
        owner.killed = ""
        return deepcopy(owner.now)

    def verb(self, verb: str, *argv: str, owner: str = "shop", refusal: str = "") -> bool:
        """Run a verb, dry first, and tell whether it changed the table. refusal: what it may say where it refuses."""
        if not self.exists or (verb not in ("reset", "rollback") and self.shown(owner)["lost"]):
            return False
        before = self.files()
        dry = self.state(verb, *argv, "--dry-run", owner=owner)
        assert self.files() == before
        done = self.state(verb, *argv, owner=owner)
        assert SECRET not in done.text + dry.text
        if done.code:
            assert refusal, done
            assert any(text in done.text for text in refusal.split("|")), done
            assert (done, self.files()) == (dry, before)
            return False
        assert dry.code == 0, (dry, done)
        assert done.text.count("nothing to do") == (self.files() == before), done
        return self.files() != before

    def files(self) -> Mapping[str, int]:
        """Files below the target with their sizes, without those beside the lock."""
        paths = (path for path in (self.folder / "tables").rglob("*") if path.is_file())
        return {str(path): path.stat().st_size for path in paths if "_cdk" not in path.parts}

    def reset(self, name: str = "shop") -> None:
        owner = self.owners[name]
        # A table that was restored to the rows before its first state has none.
        if owner.now is not None and self.verb("reset", owner=name, refusal="no stream with a state"):
            owner.now = Covered()
        self.follow()

    def reset_partition(self, nth: int, name: str = "shop") -> None:
        part, text = self._partition(nth)
        ended = self.verb(
            "reset",
            "--partition",
            text,
            owner=name,
            refusal="no stream with a state|has no partition|full refresh is complete|without --partition",
        )
        owner = self.owners[name]
        if ended and owner.now is not None:
            owner.now = owner.now.without(key for key in self.keys if key[0] == part or self.mode != "append")
        self.follow()

    def _partition(self, nth: int) -> tuple[str, str]:
        parts = self.stream.parts
        part = parts[nth % len(parts)]
        return part[:1], json.dumps({"shop": "<secret key plain>" if part == SECRET else part} if part else {})

    def rewind(self, hour: int, nth: int | None = None, name: str = "shop", hours: int | None = None) -> None:
        """Have everything since `hour` read again, or only what lies in so many hours."""
        owner, argv = self.owners[name], [] if nth is None else ["--partition", self._partition(nth)[1]]
        argv += [] if hours is None else ["--until", moment(hour + hours)]
        if owner.now is None:
            return
        complete = self.shown(name)["complete"] if self.exists else True
        refusal = "there is no cursor to move back" if self.kind == "paged" else "has no partition"
        refusal += "|nothing was committed|no stream with a state"  # as after a RESTORE to the version before the first
        if self.kind == "paged":
            argv += ["--stream", f"{self.stream.namespace}.{self.stream.name}"]
        if self.verb("rewind", "--to", moment(hour), *argv, owner=name, refusal=refusal):
            chosen = {self._partition(nth)[0]} if nth is not None else {part[:1] for part in self.stream.parts}
            last = {
                part: max((self.hours[n] for at, n in owner.now.records if at == part), default=0) for part in chosen
            }
            certain = complete and not owner.now.maybe
            ends = {p: None if hours is None or (certain and hour + hours >= last[p]) else hour + hours for p in chosen}
            again = {
                (part, n)
                for part, n in self.keys
                if part in chosen and hour <= self.hours[n] and ((end := ends[part]) is None or self.hours[n] < end)
            }
            owner.now = owner.now.without(again)
            if not complete or (hours is not None and not certain):
                # What an interrupted sync had read out of order is read again.
                loose = {key for key in owner.now.records if key[0] in chosen}
                owner.now = Covered(owner.now.records - loose, owner.now.maybe | loose)
        self.follow()

    def rollback(self, nth: int, tables: int, name: str = "shop") -> None:
        owner = self.owners[name]
        retained = self.shown(name)["retained"] if self.exists else []
        if not retained:
            return
        number = retained[nth % len(retained)]
        argv = [str(number), *(["--tables"] if tables else [])]
        dry = self.state("rollback", *argv, "--dry-run", owner=name)
        refusal = "no longer has the commit|not visible" if self.mode == "overwrite" else "no longer has the commit"
        refusal += "|cannot be restored" if self.is_vacuumed else ""
        if self.verb("rollback", *argv, owner=name, refusal=refusal):
            if tables:
                self._return_to(next(at for at in sorted(self.rows_at, reverse=True) if self._moved(at, name, number)))
            else:
                owner.now = deepcopy(owner.states[number])
                self.lacks_rows = self.lacks_rows or "no sync reads them" in dry.text
        self.follow()
        if tables and self.exists:
            assert self.rows == self.rows_at[max(self.rows_at)]

    def _moved(self, version: int, name: str, number: int) -> bool:
        return self.markers_at.get(version, {}).get(name) == number

    def _return_to(self, version: int) -> None:
        for owner in self.owners.values():
            owner.now = deepcopy(owner.versions.get(version))

    def take_back(self, form: str, name: str = "shop") -> None:
        """Export a state, and import it again."""
        owner, file = self.owners[name], str(self.folder / "exported.json")
        if owner.now is None or not self.exists or not self.shown(name)["state"]:
            return
        shown = self.shown(name)
        ended = self.state("export", file, "--format", form, owner=name)
        assert ended.code == 0, ended
        changed = self.verb("import", file, "--replace", owner=name)
        if changed and self.kind != "paged":
            now = owner.now
            last = {
                part: max((self.hours[n] for at, n in now.records | now.maybe if at == part), default=0)
                for part, _ in self.keys
            }
            loose = {(part, n) for part, n in now.records if not shown["complete"] or self.hours[n] == last[part]}
            owner.now = Covered(now.records - loose, now.maybe | loose)
        if changed and self.kind == "paged" and self.mode == "overwrite":
            owner.now = Covered()
        assert form == "airbyte" or not changed, "an exact state is the same"
        self.follow()

    def put_again(self, name: str = "shop") -> None:
        """Set the state that `show` prints."""
        if not self.exists or not (shown := self.shown(name))["state"]:
            return
        (self.folder / "state.json").write_text(json.dumps(shown["state"]))
        stream = f"{self.stream.namespace}.{self.stream.name}"
        assert not self.verb("set", stream, str(self.folder / "state.json"), owner=name)

    def put_odd(self, nth: int) -> None:
        """Set a state that the stream never has, in place of one that it has."""
        if not self.exists or not self.shown()["state"]:
            return
        odd = ODD_STATES[nth % (1 if self.kind == "paged" else len(ODD_STATES))]
        (self.folder / "state.json").write_text(json.dumps(odd))
        stream = f"{self.stream.namespace}.{self.stream.name}"
        assert not self.verb("set", stream, str(self.folder / "state.json"), refusal="expected")

    def fork(self) -> None:
        first, second = self.owners["shop"], self.owners["store"]
        if first.now is not None and self.verb(
            "fork", "store", refusal="already has|full refresh was interrupted|no stream with a state"
        ):
            second.now = deepcopy(first.now)
        self.follow()

    def gc(self) -> None:
        if self.exists and not self.shown()["lost"]:
            ended = self.state("gc", "--days", "0")
            assert ended.code == 0, ended

    def look(self) -> None:
        """Whatever only reads ends well."""
        if not self.exists or self.shown()["number"] is None or self.shown()["lost"]:
            return
        retained = self.shown()["retained"]
        for argv in (("log",), ("log", "--json"), ("diff", str(retained[0]), str(retained[-1])), ("show",)):
            ended = self.state(*argv)
            assert (ended.code, SECRET in ended.text) == (0, False), ended

    def other_restores(self, nth: int) -> None:
        versions = [at for at in self.rows_at if at >= 0]
        if versions and (to := versions[nth % len(versions)]) != versions[-1]:
            try:
                self.table.restore(to)
            except DeltaError:
                return  # the log or the files are gone
            self._return_to(to)
        self.follow()
        assert not versions or self.rows == self.rows_at[max(self.rows_at)]

    def other_joins(self) -> None:
        if self.exists:
            self.table.optimize.compact()
        self.follow()

    def other_vacuums(self) -> None:
        if self.exists:
            self.table.vacuum(0, dry_run=False, enforce_retention_duration=False)
            self.is_vacuumed = True
        self.follow()

    def other_expires(self) -> None:
        """Clean up the log before the newest version."""
        if self.exists:
            self.table.create_checkpoint()
            for version in range(self.table.version()):
                (self.root / "_delta_log" / f"{version:020}.json").unlink(missing_ok=True)

    def other_appends(self) -> None:
        if self.exists:
            n = -1 - max([-n for _, n in self.rows], default=0)
            write_deltalake(str(self.root), pa.table({"n": [min(n, -1)]}), mode="append", schema_mode="merge")
        self.follow()

    def other_deletes(self) -> None:
        if self.exists and self.mode == "append":
            self.table.delete("n % 3 = 0")
        self.follow()

    def check(self) -> None:
        """What holds after each act."""
        if not self.exists:
            return
        assert self.rows_of(self.table) == self.rows
        for name in self.owners:
            verified, shown = self.state("verify", owner=name), self.state("show", owner=name)
            assert (verified.code, shown.code) in ((0, 0), (1, 1)), (verified, shown)
            assert SECRET not in verified.text + shown.text
        if DeltaTable.is_deltatable(str(self.root_of_history)):
            (ids,) = self._columns(DeltaTable(str(self.root_of_history)), "_airbyte_raw_id")
            assert len(ids) == len(set(ids))


ODD_STATES: tuple[Json, ...] = (
    {"states": [{"partition": {"shelf": 1}, "cursor": {"updated_at": moment(5)}}]},
    {"__ab_full_refresh_sync_complete": True},
    {"page": 3},
)
CUTS = ("page_read", "task_ended", "before_state_blob", "after_state_blob", "after_commit", "merged", "before_history")
NTH = st.integers(0, 7)
WHO = st.sampled_from(["shop", "shop", "store"])
ACTS: st.SearchStrategy[Act] = st.one_of(
    st.tuples(st.just("grow"), st.lists(st.sampled_from([0, 1, 20, 30]), min_size=1, max_size=4)),
    st.tuples(st.just("sync"), WHO),
    st.tuples(st.just("sync"), WHO),
    st.tuples(st.just("cut"), st.sampled_from(CUTS), st.integers(1, 4), WHO),
    st.tuples(st.just("reset"), WHO),
    st.tuples(st.just("reset_partition"), NTH, WHO),
    st.tuples(st.just("rewind"), st.sampled_from([0, 20, 50, 200]), st.none() | NTH, WHO),
    st.tuples(st.just("rewind"), st.sampled_from([0, 5, 20]), st.none() | NTH, WHO, st.sampled_from([1, 15, 30, 90])),
    st.tuples(st.just("rollback"), NTH, st.integers(0, 1), WHO),
    st.tuples(st.just("take_back"), st.sampled_from(["exact", "airbyte"]), WHO),
    st.tuples(st.sampled_from(["put_again"]), WHO),
    st.tuples(st.just("put_odd"), NTH),
    st.tuples(st.just("other_restores"), NTH),
    st.tuples(
        st.sampled_from(
            [
                "evolve",
                "fork",
                "gc",
                "look",
                "other_joins",
                "other_vacuums",
                "other_expires",
                "other_appends",
                "other_deletes",
            ]
        )
    ),
)


def run(kind: str, mode: str, acts: list[Act]) -> None:
    with TemporaryDirectory() as folder:
        world = Run(Path(folder), kind, mode)
        for name, *args in [("grow", [0, 5, 20, 30]), ("sync",), *acts, ("sync",)]:
            getattr(world, name)(*args)
            world.check()


@example("paged", "append", [("cut", "after_commit", 2, "shop"), ("grow", [0])])
@example("plain", "append", [("take_back", "airbyte", "shop"), ("rewind", 0, None, "shop", 1), ("sync", "shop")])
@example("plain", "append", [("rewind", 5, None, "shop", 1), ("rewind", 20, None, "shop")])
@example("plain", "append", [("other_restores", 1), ("rewind", 0, None, "shop", 15)])
@example("accounts", "append_dedup", [("other_restores", 0), ("reset_partition", 0, "shop")])
@example("plain", "append", [("other_restores", 0), ("cut", "page_read", 1, "shop"), ("rewind", 0, None, "shop")])
@example("shops", "append", [("rewind", 4, None, "shop", 20), ("cut", "after_commit", 1, "shop")])
@example("plain", "append", [("rollback", 1, 0, "shop"), ("rewind", 0, None, "shop"), ("put_again", "shop")])
@settings(max_examples=15)
@given(st.sampled_from(sorted(KINDS)), st.sampled_from(sorted(OPTIONS)), st.lists(ACTS, max_size=10))
def test_a_table_has_the_rows_that_its_administration_leaves(kind: str, mode: str, acts: list[Act]) -> None:
    run(kind, mode if kind == "paged" or mode != "overwrite" else "append", acts)
