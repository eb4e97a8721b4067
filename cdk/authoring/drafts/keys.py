"""Keys: which field identifies a record, and which one a path's parameter stands for."""

from collections.abc import Mapping

from cdk.authoring.drafts.names import first_of, plain, singular, words

IDS = ("id", "gid", "uuid", "guid", "sid", "key", "uid", "slug", "number", "code", "username", "login", "name")
"""What fields that identify something are called, the surest first."""

_SURE = ("id", "gid", "uuid", "guid", "sid", "uid", "key")
_SCALARS = {"string", "integer", "number"}
_OTHER_NAMES = {"index": "number", "username": "login", "user": "login"}


def field_of(parameter: str, kind: str, fields: Mapping[str, str], resource: str) -> tuple[str, str] | None:
    """The field of a parent's records that a parameter of a path is, and why; None where none fits.

    kind: the parameter's type. fields: types of the records' fields. resource: what the path calls the records.
    """
    scalars = [name for name, type_ in fields.items() if type_ in _SCALARS]
    if exact := first_of(scalars, [plain(parameter), _OTHER_NAMES.get(plain(parameter), "")]):
        return exact, f"the path's parameter `{parameter}` is called so"
    own, owner = words(parameter), singular(resource)
    if own[: len(owner)] == owner and (short := first_of(scalars, ["".join(own[len(owner) :])])):
        return short, f"the path's parameter `{parameter}` names it"
    if own and (short := first_of(scalars, [own[-1]])):
        return short, f"the path's parameter `{parameter}` ends as it is called"
    if not own or (own[-1] not in IDS and not set(own) & set(owner)):
        return None
    alike = [name for name in scalars if kind not in _SCALARS or fields[name] == kind]
    if known := first_of(alike, IDS) or first_of(scalars, _SURE):
        return known, f"it is the likeliest to identify what the path's parameter `{parameter}` does"
    return None


def primary_key(fields: Mapping[str, str], resource: str, detail: tuple[str, str] | None) -> tuple[str, str] | None:
    """The field that identifies a record, and why; None where none seems to.

    detail: the parameter of the path that reads one of the records, and its type.
    """
    scalars = [name for name, type_ in fields.items() if type_ in _SCALARS]
    if detail is not None and (guess := field_of(*detail, fields, resource)) is not None:
        return guess
    owner = "".join(singular(resource))
    names = [*_SURE, *(f"{owner}{each}" for each in _SURE)]
    likely = first_of(scalars, names)
    return None if likely is None else (likely, "of its name")
