"""Reads a `RESTAPIConfig` of dlt from a file: JSON, YAML, or a dict in Python code, which is parsed and never run."""

import ast
from pathlib import Path

from cdk.authoring.drafts.draft import check_levels
from cdk.base.documents import read_document
from cdk.base.errors import ConfigError
from cdk.base.values import JsonObject, JsonValue, as_object
from cdk.base.wording import reason_of

CODE, SECRET, SETTING = "$code", "$secret", "$setting"
"""Keys of objects that replace what is not a value: Python code as text, and names of dlt's secrets and settings."""


def read_dlt_config(path: Path) -> JsonObject:
    """Return the first object with `client` and `resources` in a file.

    Raises ConfigError: when it cannot be read or has none.
    """
    value = _in_python(path) if path.suffix == ".py" else read_document(path)
    check_levels(value, str(path))
    if isinstance(value, dict) and isinstance(value.get("client"), dict) and isinstance(value.get("resources"), list):
        return value
    expected = "expected a RESTAPIConfig of dlt, an object with `client` and a list `resources`"
    raise ConfigError(f"has none, {expected}; write it as one dict", path=str(path))


def _in_python(path: Path) -> JsonValue:
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        values = (_value(node) for node in ast.walk(tree) if isinstance(node, ast.Dict))
        return next((value for value in values if {"client", "resources"} <= as_object(value).keys()), None)
    except (OSError, ValueError, SyntaxError) as error:
        raise ConfigError(f"cannot be read as Python: {reason_of(error)}", path=str(path)) from None
    except (RecursionError, MemoryError):
        raise ConfigError("is nested too deeply to be read as Python; flatten it", path=str(path)) from None


def _value(node: ast.expr) -> JsonValue:
    match node:
        case ast.Constant(value=str() | int() | float() | bool() | None as value):
            return value
        case ast.Dict(keys=keys, values=values) if all(isinstance(key, ast.Constant) for key in keys):
            pairs = zip(keys, values, strict=True)
            return {str(key.value): _value(inner) for key, inner in pairs if isinstance(key, ast.Constant)}
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_value(item) for item in items]
        case ast.Subscript(ast.Attribute(ast.Name("dlt"), "secrets" | "config" as kind), ast.Constant(str() as name)):
            return {SECRET if kind == "secrets" else SETTING: name}
        case ast.Attribute(ast.Attribute(ast.Name("dlt"), "secrets"), "value"):
            return {SECRET: ""}
        case _:
            return {CODE: ast.unparse(node)}
