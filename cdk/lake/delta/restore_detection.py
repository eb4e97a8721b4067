"""Which state belongs to the rows of a table: the one its marker names, unless the table was restored since.

RESTORE brings the rows of an older version back and leaves the marker where it was. The log is read backwards, over
each RESTORE to the version it went to, until a commit is met that moved the marker. Where the log was cleaned up before
that, it tells nothing; then the table's rows have to (`StreamTable`).
"""

import orjson

from cdk.base.errors import StateError
from cdk.lake.storage.folder import Folder


def state_of_rows(root: Folder, stream: str, app: str, *, version: int, marker: int) -> tuple[int | None, bool]:
    """The version of the state that belongs to the rows of the table's `version`; None: they have none.

    The second is whether the log says so: False where it was cleaned up, and the marker may be that of other rows.
    app: whose marker. marker: where it stands. Raises StateError: the log cannot tell.
    """
    log, at, restored = root.join("_delta_log"), version, False
    while at >= 0:
        try:
            lines = log.read(f"{at:020}.json").splitlines()
        except FileNotFoundError:
            if not restored:
                return marker, False
            why = f"version {at}, to which it was restored, is gone from the log"
            raise _unknown(why, root, stream) from None
        actions = [orjson.loads(line) for line in lines]
        for action in actions:
            if action.get("txn", {}).get("appId") == app:
                moved_to: int = action["txn"]["version"]
                return moved_to, True
        at -= 1
        for info in (action.get("commitInfo", {}) for action in actions):
            if info.get("operation") == "RESTORE":
                to, restored = info.get("operationParameters", {}).get("version"), True
                if to is None:
                    why = "it was restored to a time; restore it to a version, by its number"
                    raise _unknown(why, root, stream)
                at = int(to)
    return (None if restored else marker), True


def _unknown(why: str, root: Folder, stream: str) -> StateError:
    message = f"which state belongs to the table's rows cannot be told: {why}"
    return StateError(message, path=str(root), stream=stream)
