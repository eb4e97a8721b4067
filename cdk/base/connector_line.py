"""Which line of a connector an error comes from: file and line, for a message."""

import os
import traceback
from pathlib import Path

_KIT = Path(__file__).parents[1]
_PYTHON = Path(os.__file__).parent


def connector_line(error: BaseException) -> str:
    """The last line of the connector that led to an error, as ` (file:line, in function)`; empty: there is none."""
    if not isinstance(error, Exception):
        return ""  # Ctrl-C comes wherever the connector happens to be
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<")]
    others = [frame for frame in frames if _may_be_of_a_connector(Path(frame.filename))]
    if not others:
        return ""
    # What the connector calls in its turn, a library as a rule, says less of what to change.
    last = next(frame for frame in reversed(others) if frame.filename == others[0].filename)
    return f" ({last.filename}:{last.lineno}, in {last.name})"


def defined_at(method: object) -> str:
    """Where a method of a connector begins, as ` (file:line)`; empty where that is not known."""
    code = getattr(method, "__code__", None)
    return "" if code is None else f" ({code.co_filename}:{code.co_firstlineno})"


def _may_be_of_a_connector(file: Path) -> bool:
    of_python = file.is_relative_to(_PYTHON) and "site-packages" not in file.parts
    return not (of_python or file.is_relative_to(_KIT))
