"""Bookmarks: a place for a job to remember something, a plain PySpark job too. The names are those of amorphicutils.

from cdk.state import StateStore

state_mgm = StateStore("landing", "lake", "sales", "state")
state_data = state_mgm.get_or_create("nightly_orders")
state_data.add_element("sales.orders", {"epoch_time": 156234987})
state_mgm.update(state_data)
state_mgm.complete(state_data)

Below is a state log (docs/explanation/state-log.md): `update` appends a partial record, `complete` a final one, and
each key is a slot `bookmark:<key>`. The newest record is what the next job gets, completed or not.
"""

from collections.abc import Mapping
from typing import Final, Literal

from cdk.base.errors import BadState, CdkError, ConfigError, StateError
from cdk.base.logs import logger
from cdk.base.values import JsonValue, Stored
from cdk.state.log.canonical_json import dumps_canonical, loads_canonical
from cdk.state.log.record import StateRecord
from cdk.state.log.retention import Retention
from cdk.state.log.session import Mode, StateSession
from cdk.state.log.slot_value import Kind
from cdk.state.log.state_log import StateLog
from cdk.state.stores.key import STATE_NAME, StateKey
from cdk.state.stores.opening import open_objects

_KIND = Kind("cdk/bookmark")
_USE = "bookmark:"
_NAMESPACE = "bookmarks"


class StateData:
    """What a job remembers: keys, and values of JSON. Belongs to one thread. Lasts when it is handed to a StateStore.

    A key is a text without control characters of up to 400 characters; `<domain>.<dataset>` is a good one.
    """

    def __init__(self) -> None:
        self._texts: dict[str, bytes] = {}

    def add_element(self, key: str, value: JsonValue, *, replace: bool = True) -> None:
        """Set a key to a copy of `value`. replace: also where another value is set; else that is refused.

        Raises BadState naming the place of what JSON cannot hold: tuples, sets, moments, NaN, keys that are no texts.
        StateError: the key has another value, and `replace` is false.
        """
        if not isinstance(key, str):
            raise BadState("bookmark", key, "a text as a key")
        text = dumps_canonical(value, f"{_USE}{key}")
        if not replace and self._texts.get(key, text) != text:
            raise StateError(
                "the key has another value; choose another key, such as '<domain>.<dataset>', or `replace=True`",
                path=f"{_USE}{key}",
            )
        self._texts[key] = text

    def get_element(self, key: str, default: Stored = None) -> Stored:
        """A copy of the value of a key; `default` where it has none."""
        text = self._texts.get(key)
        return default if text is None else loads_canonical(text, f"{_USE}{key}")

    def remove_element(self, key: str) -> None:
        """Forget a key; one that is not there is forgotten already."""
        self._texts.pop(key, None)

    def reset(self) -> None:
        """Remove all keys and their values."""
        self._texts.clear()

    @property
    def elements(self) -> Mapping[str, Stored]:
        """Copies of all values by their keys, in order of the keys."""
        return {key: loads_canonical(text, f"{_USE}{key}") for key, text in sorted(self._texts.items())}

    def to_bytes(self) -> bytes:
        """All keys and values, as canonical JSON in UTF-8."""
        return dumps_canonical(self.elements, "bookmarks")

    def from_bytes(self, data: bytes | Mapping[str, JsonValue]) -> None:
        """Take these keys and values in place of all others: a map, or what `to_bytes` gave.

        Raises BadState: it is something else; then nothing has changed.
        """
        elements = loads_canonical(data, "bookmarks") if isinstance(data, bytes) else data
        if not isinstance(elements, Mapping):
            raise BadState("bookmarks", elements, "keys and values")
        taken = StateData()
        for key, value in elements.items():
            taken.add_element(key, value)
        self._texts = taken._texts


class StateStore:
    """The bookmarks of all jobs of a dataset. What is stored lasts, and is seen by all processes that name the same.

    lz_bucket_name: where copies for other programs go, as `<domain>/<dataset>/<job>_running.json` (the last `update`)
    and `<job>_completed.json` (the last `complete`): one JSON object. They are written only. dlz_bucket_name: where the
    log lies, under the same folders; what is read comes from there. Both are a folder of this machine or the URL of an
    object store, such as `s3://bucket`; they may be one.
    state_domain, state_dataset_name: 1 to 200 letters, digits, `.`, `_` and `-`, no `.` first. username, file_type: are
    noted in the records. options: for object stores, such as `endpoint` and `region`; what is not given, credentials
    too, is found in the environment.
    Raises ConfigError: a name is something else, or a bucket cannot be used.
    """

    def __init__(  # noqa: PLR0917 - existing programs give them by position
        self,
        lz_bucket_name: str,
        dlz_bucket_name: str,
        state_domain: str,
        state_dataset_name: str,
        username: str = "",
        file_type: str = "others",
        *,
        options: Mapping[str, JsonValue] | None = None,
    ) -> None:
        for what, name in (("state_domain", state_domain), ("state_dataset_name", state_dataset_name)):
            if not STATE_NAME.fullmatch(name):
                expected = "1 to 200 letters, digits, '.', '_' and '-', no '.' first"
                raise ConfigError(f"found {name!r}, expected {expected}", path=what)
        folder = f"{state_domain}/{state_dataset_name}"
        self._store = open_objects(f"{dlz_bucket_name.rstrip('/')}/{folder}", options)
        self._store.prepare()
        self._copies = open_objects(f"{lz_bucket_name.rstrip('/')}/{folder}", options)
        self._run: Mapping[str, JsonValue] = {"username": username, "file_type": file_type}

    def get_or_create(self, job_name: str) -> StateData:
        """What a job remembers: as of its newest record, completed or not; empty where there is none.

        job_name: the identity, the same in every run; letters, digits, `.`, `_` and `-`.
        Raises ConfigError: it is something else. BadState: the log is damaged. TransientError: it cannot be reached.
        """
        log = self._log(job_name)
        return _JobData(job_name, StateSession(log, Mode(), self._run, Retention()))

    def update(self, data: StateData) -> None:
        """Store it: the job is running. Values that did not change are not stored again.

        It is stored in the lake. A copy that cannot be written is logged: the next `update` or `complete` writes it.
        Raises StateConflict: another process stored something for this job since `data` was made; nothing was stored.
        StateError: `data` is not from `get_or_create`. ConfigError: the store refuses; nothing was stored.
        TransientError: it cannot be reached, and whether it was stored is not known: `get_or_create` knows.
        """
        self._save(data, "partial", "running")

    def complete(self, data: StateData) -> None:
        """Store it: the job is completed. Raises what `update` raises."""
        self._save(data, "final", "completed")

    def running(self, job_name: str) -> Mapping[str, Stored] | None:
        """What a job that is not completed has stored so far; None for a job that is, or that never stored anything."""
        log = self._log(job_name)
        head = log.head()
        return _elements(log, head) if head is not None and head.status == "partial" else None

    def completed(self, job_name: str) -> Mapping[str, Stored] | None:
        """What a job stored when it was last completed; None where it never was."""
        log = self._log(job_name)
        newest = next((record for record in log.history() if record.status == "final"), None)
        return None if newest is None else _elements(log, newest)

    def _log(self, job_name: str) -> StateLog:
        return StateLog(self._store, StateKey(job_name, _NAMESPACE))

    def _save(self, data: StateData, status: Literal["partial", "final"], word: str) -> None:
        if not isinstance(data, _JobData):
            raise StateError("found a StateData of no job, expected one from `get_or_create(job_name)`")
        data.commit(status)
        try:
            self._copies.put(f"{data.job_name}_{word}.json", data.to_bytes())
        except CdkError as error:
            # To a caller an error means that the job does its work again, and what is stored says that it is done.
            logger.warning("the bookmarks of %s are stored, their copy is not: %s", data.job_name, error)


class _JobData(StateData):
    """The bookmarks of one job, and where they stand in its log.

    The session holds no lease: a notebook may ask for a job twice, and nobody says when a job has ended. Of two that
    both store, the log refuses the second.
    """

    def __init__(self, job_name: str, session: StateSession) -> None:
        super().__init__()
        self.job_name: Final = job_name
        self._session = session
        for slot in session.slots:
            if slot.startswith(_USE):
                self.add_element(slot.removeprefix(_USE), session.read(slot, _KIND))
        self._stored = set(self._texts)

    def commit(self, status: Literal["partial", "final"]) -> None:
        for key in self._stored - set(self._texts):
            self._session.remove(f"{_USE}{key}")
        for key in self._texts:
            self._session.propose(f"{_USE}{key}", _KIND.of(self.get_element(key)))
        head = self._session.head
        begins = head is None or (status == "partial" and head.status != "partial")
        # Values that stayed as they are make no record, but that a job began to run is news.
        self._session.commit(status, [{"job": "running" if status == "partial" else "completed"}] if begins else [])
        self._stored = set(self._texts)


def _elements(log: StateLog, record: StateRecord) -> Mapping[str, Stored]:
    slots = (slot for slot in sorted(record.slots) if slot.startswith(_USE))
    return {slot.removeprefix(_USE): _KIND.read(log.value(record, slot), slot) for slot in slots}
