"""The tables of the peer's unit tests: the rows of `pytest.mark.parametrize`, read without running the peer's code."""

import ast
import warnings
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, NamedTuple

_BUILT_IN = {"str": str, "int": int, "float": float, "bool": bool, "list": list, "dict": dict, "tuple": tuple}


_MOMENTS: Mapping[str, Any] = {"datetime": datetime, "date": date, "timedelta": timedelta, "timezone": timezone}


class Named(NamedTuple):
    """A name that is no constant of its file: a class, a decoder, an exception."""

    name: str


class Called(NamedTuple):
    """A call of something that is not of Python: its name, and what it is given by name."""

    name: str
    given: Mapping[str, Any]


class Row(NamedTuple):
    """One row of a table: where it stands, and its values by the names of the arguments."""

    file: str
    function: str
    number: int
    values: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{Path(self.file).stem}.{self.function}-{self.number}"


def rows(folder: Path, file: str, function: str) -> Iterator[Row]:
    """The rows of a test whose values are written out; those that are computed are left out.

    Raises LookupError: there is no such test, or it has no table.
    """
    with warnings.catch_warnings(action="ignore"):  # the peer's texts have escapes that Python warns of
        tree = ast.parse((folder / file).read_text())
    constants: dict[str, Any] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(target := node.targets[0], ast.Name):
            try:
                constants[target.id] = _value(node.value, constants)
            except ValueError:
                continue
    tests = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == function]
    marks = [mark for test in tests for mark in test.decorator_list]
    tables = [mark for mark in marks if ast.unparse(mark).startswith("pytest.mark.parametrize(")]
    if not tables:
        raise LookupError(f"{file} has no table for {function}")
    for table in tables:
        yield from _rows(table, constants, file, function)


def _rows(table: ast.expr, constants: Mapping[str, Any], file: str, function: str) -> Iterator[Row]:
    assert isinstance(table, ast.Call)
    names, listed = table.args
    assert isinstance(listed, ast.List | ast.Tuple)
    told = ast.literal_eval(names)
    keys = [name.strip() for name in told.split(",")] if isinstance(told, str) else list(told)
    for number, node in enumerate(listed.elts):
        param = isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.param"
        parts = node.args if param and isinstance(node, ast.Call) else [node]
        try:
            values = [_value(part, constants) for part in parts]
        except ValueError:
            continue
        if not param and len(keys) > 1:
            (values,) = values
        yield Row(file, function, number, dict(zip(keys, values, strict=True)))


def _value(node: ast.expr, constants: Mapping[str, Any]) -> Any:  # noqa: C901, PLR0911 - one line a kind
    """The value of an expression of constants. Raises ValueError: it is another."""
    match node:
        case ast.Constant():
            return node.value
        case ast.List() | ast.Tuple() | ast.Set():
            items = [_value(item, constants) for item in node.elts]
            return items if isinstance(node, ast.List) else tuple(items) if isinstance(node, ast.Tuple) else set(items)
        case ast.Dict():
            pairs = zip(node.keys, node.values, strict=True)
            return {_value(key, constants): _value(item, constants) for key, item in pairs if key is not None}
        case ast.UnaryOp(op=ast.USub()):
            return -_value(node.operand, constants)
        case ast.BinOp(op=ast.Add()):
            try:
                return _value(node.left, constants) + _value(node.right, constants)
            except TypeError:
                raise ValueError(ast.unparse(node)) from None
        case ast.Call():
            given = {str(key.arg): _value(key.value, constants) for key in node.keywords}
            arguments = [_value(argument, constants) for argument in node.args]
            name = ast.unparse(node.func).rpartition(".")[2]
            if name in _MOMENTS:
                return _MOMENTS[name](*arguments, **given)
            return Called(name, {**{str(i): value for i, value in enumerate(arguments)}, **given})
        case ast.Attribute():
            return UTC if node.attr == "utc" else Named(node.attr)
        case ast.Name():
            return constants.get(node.id, _BUILT_IN.get(node.id, Named(node.id)))
        case _:
            raise ValueError(ast.unparse(node))
