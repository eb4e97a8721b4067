"""Finds the line of a connector's code that an error comes from, for messages."""

import os
import traceback
from collections.abc import Sequence
from inspect import unwrap
from itertools import takewhile
from pathlib import Path
from types import FrameType

from cdk.base.first_use import lazy_pattern

_KIT = Path(__file__).parents[2]
_PYTHON = Path(os.__file__).parent
_NAMED = lazy_pattern(r"\.py:\d+")
_PACKAGES = {"site-packages", "dist-packages"}


def connector_line(error: BaseException) -> str:
    """The last line of the connector that led to an error, as ` (file:line, in function)`; empty without one."""
    if not isinstance(error, Exception):
        return ""  # Ctrl-C arrives at an arbitrary line of the connector
    return _line(traceback.extract_tb(error.__traceback__))


def error_with_line(error: BaseException) -> str:
    """The class and message of an error, and the connector's line that it comes from, as `connector_line` has it."""
    return f"{type(error).__name__}: {error}".removesuffix(": ") + connector_line(error)


def calling_line(frame: FrameType) -> str:
    """The line of the connector from which `frame` was called; see `connector_line`."""
    inwards = traceback.StackSummary.extract(traceback.walk_stack(frame), lookup_lines=False)
    # Frames further out, beyond the kit's own, belong to the program that runs the kit.
    called = [*takewhile(lambda each: not Path(each.filename).is_relative_to(_KIT), inwards)]
    own = next(
        (
            each
            for each in called
            if _PACKAGES.isdisjoint(Path(each.filename).parts) and _is_of_connector(each.filename)
        ),
        None,
    )
    return _line(called[::-1] if own is None else [own])


def names_line(text: str) -> bool:
    """Whether a message already names a line of Python code."""
    return _NAMED.search(text) is not None


def _line(frames: Sequence[traceback.FrameSummary]) -> str:
    others = [frame for frame in frames if _is_of_connector(frame.filename)]
    if not others:
        return ""
    # The frames that the connector calls, usually of a library, tell less about what to change.
    last = next(frame for frame in reversed(others) if frame.filename == others[0].filename)
    return f" ({last.filename}:{last.lineno}, in {last.name})"


def defined_at(*methods: object) -> str:
    """The start of the first method that a connector defines, as ` (file:line)`; empty if it defines none of them."""
    codes = [getattr(unwrap(method), "__code__", None) for method in methods if callable(method)]
    own = next((code for code in codes if code is not None and _is_of_connector(code.co_filename)), None)
    return "" if own is None else f" ({own.co_filename}:{own.co_firstlineno})"


def _is_of_connector(filename: str) -> bool:
    """Whether a file belongs neither to Python nor to the kit."""
    file = Path(filename)
    of_python = file.is_relative_to(_PYTHON) and _PACKAGES.isdisjoint(file.parts)
    return not (of_python or file.is_relative_to(_KIT) or filename.startswith("<"))
