"""Bookmarks: values that jobs, including plain PySpark jobs, keep between their runs. API names as in amorphicutils.

from cdk.state import StateStore

state_mgm = StateStore("landing", "lake", "sales", "state")
state_data = state_mgm.get_or_create("nightly_orders")
state_data.add_element("sales.orders", {"epoch_time": 156234987})
state_mgm.update(state_data)
state_mgm.complete(state_data)

They are stored in a state log (docs/explanation/state-log.md): `update` appends a partial record, `complete` a final
one, and each key is a slot `bookmark:<key>`. The next job reads the newest record, whether completed or not.
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
from cdk.state.stores.opening import open_objects
from cdk.state.stores.protocol import STATE_NAME, StateKey

_KIND = Kind("cdk/bookmark")
_USE = "bookmark:"
_NAMESPACE = "bookmarks"


class StateData:
    """The bookmarks of a job: JSON values by key. Belongs to one thread. A StateStore makes them durable.

    A key is a string of up to 400 characters without control characters, preferably `<domain>.<dataset>`.
    """

    def __init__(self) -> None:
        self._texts: dict[str, bytes] = {}

    def add_element(self, key: str, value: JsonValue, *, replace: bool = True) -> None:
        """Set a key to a copy of `value`. replace: overwrite a different existing value.

        Raises BadState: when JSON cannot represent a part of the value (a tuple, set, datetime, NaN or a key that is
        not a string); it names the path. StateError: when the key has another value and `replace` is false.
        """
        if not isinstance(key, str):
            raise BadState("bookmark", key, "a string as a key")
        text = dumps_canonical(value, f"{_USE}{key}")
        if not replace and self._texts.get(key, text) != text:
            why = "the key has another value; choose another key, such as '<domain>.<dataset>', or `replace=True`"
            raise StateError(why, path=f"{_USE}{key}")
        self._texts[key] = text

    def get_element(self, key: str, default: Stored = None) -> Stored:
        """Return a copy of the value of a key, or `default` if the key is missing."""
        text = self._texts.get(key)
        return default if text is None else loads_canonical(text, f"{_USE}{key}")

    def remove_element(self, key: str) -> None:
        """Remove a key. Does nothing if it is missing."""
        self._texts.pop(key, None)

    def reset(self) -> None:
        """Remove all keys and their values."""
        self._texts.clear()

    @property
    def elements(self) -> Mapping[str, Stored]:
        """Copies of all values by key, sorted by key."""
        return {key: loads_canonical(text, f"{_USE}{key}") for key, text in sorted(self._texts.items())}

    def to_bytes(self) -> bytes:
        """Return all keys and values as canonical JSON in UTF-8."""
        return dumps_canonical(self.elements, "bookmarks")

    def from_bytes(self, data: bytes | Mapping[str, JsonValue]) -> None:
        """Replace all keys and values by those of `data`, a map or the result of `to_bytes`.

        Raises BadState: when `data` is something else; nothing has changed then.
        """
        elements = loads_canonical(data, "bookmarks") if isinstance(data, bytes) else data
        if not isinstance(elements, Mapping):
            raise BadState("bookmarks", elements, "keys and values")
        taken = StateData()
        for key, value in elements.items():
            taken.add_element(key, value)
        self._texts = taken._texts


class StateStore:
    """The durable bookmarks of all jobs of a dataset, shared by all processes that name the same buckets and dataset.

    lz_bucket_name: where copies for other programs go, as `<domain>/<dataset>/<job>_running.json` (the last `update`)
    and `<job>_completed.json` (the last `complete`), one JSON object each. They are never read. dlz_bucket_name: where
    the log is stored and read from, under the same folders. Both are a local folder or the URL of an object store, such
    as `s3://bucket`; they may be the same.
    state_domain, state_dataset_name: 1 to 200 letters, digits, `.`, `_` and `-`, not starting with `.`. username,
    file_type: recorded in the log. options: of object stores, such as `endpoint` and `region`; missing ones, including
    credentials, are taken from the environment.
    Raises ConfigError: when a name is invalid or a bucket cannot be used.
    """

    def __init__(  # noqa: PLR0917 - existing programs pass them by position
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
        """Return a job's bookmarks as of its newest record, completed or not; empty if it has no record.

        job_name: identity of the job, the same in every run; letters, digits, `.`, `_` and `-`.
        Raises ConfigError: when `job_name` is invalid. BadState: when the log is damaged. TransientError: when the
        store cannot be reached.
        """
        return _JobData(job_name, StateSession(self._log(job_name), Mode(), self._run, Retention()))

    def update(self, data: StateData) -> None:
        """Store the bookmarks of a running job. Unchanged values are not stored again.

        They are stored in the log of `dlz_bucket_name`. A copy that cannot be written is only logged; the next `update`
        or `complete` writes it.
        Raises StateConflict: when another process has stored bookmarks of this job since `data` was loaded; nothing was
        stored. StateError: when `data` is not from `get_or_create`. ConfigError: when the store refuses; nothing was
        stored. TransientError: when the store cannot be reached; whether `data` was stored is then unknown until
        `get_or_create` reads it again.
        """
        self._save(data, "partial", "running")

    def complete(self, data: StateData) -> None:
        """Store the bookmarks of a completed job. Raises what `update` raises."""
        self._save(data, "final", "completed")

    def running(self, job_name: str) -> Mapping[str, Stored] | None:
        """Return what an uncompleted job has stored so far; None if it is completed or never stored anything."""
        log = self._log(job_name)
        head = log.head()
        return _elements(log, head) if head is not None and head.status == "partial" else None

    def completed(self, job_name: str) -> Mapping[str, Stored] | None:
        """Return what a job stored when it last completed; None if it never did."""
        log = self._log(job_name)
        newest = next((record for record in log.history() if record.status == "final"), None)
        return None if newest is None else _elements(log, newest)

    def _log(self, job_name: str) -> StateLog:
        return StateLog(self._store, StateKey(job_name, _NAMESPACE))

    def _save(self, data: StateData, status: Literal["partial", "final"], word: str) -> None:
        if not isinstance(data, _JobData):
            raise StateError("found a StateData without a job, expected one from `get_or_create(job_name)`")
        data.commit(status)
        try:
            self._copies.put(f"{data.job_name}_{word}.json", data.to_bytes())
        except CdkError as error:
            # An error would make the caller repeat the job's work, although the stored state says that it is done.
            logger.warning("the bookmarks of %s are stored, but their copy is not: %s", data.job_name, error)


class _JobData(StateData):
    """The bookmarks of one job, with the session of its log.

    The session holds no lease: a notebook may open a job twice, and nothing signals the end of a job. If two sessions
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
        # Unchanged values append no record, but the start of a job does.
        self._session.commit(status, [{"job": "running" if status == "partial" else "completed"}] if begins else [])
        self._stored = set(self._texts)


def _elements(log: StateLog, record: StateRecord) -> Mapping[str, Stored]:
    slots = (slot for slot in sorted(record.slots) if slot.startswith(_USE))
    return {slot.removeprefix(_USE): _KIND.read(log.value(record, slot), slot) for slot in slots}
