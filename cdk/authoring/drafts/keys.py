"""Keys: finds the field that identifies a record, and the field that a path parameter stands for."""

from collections import Counter
from collections.abc import Mapping, Sequence

from cdk.authoring.drafts.names import first_of, plain, singular, words

IDS = ("id", "gid", "uuid", "guid", "sid", "key", "uid", "slug", "number", "code", "username", "login", "name")
"""Usual names of fields that identify a record, the most reliable first."""

_SURE = ("id", "gid", "uuid", "guid", "sid", "uid", "key")
_SCALARS = {"string", "integer", "number"}
_OTHER_NAMES = {"index": "number", "username": "login", "user": "login", "identifier": "id"}


def field_of(parameter: str, kind: str, fields: Mapping[str, str], resource: str) -> tuple[str, str] | None:
    """Return the field of a parent's records that a path parameter stands for, and the reason; None if none fits.

    kind: the parameter's type. fields: types of the records' fields. resource: the path's name for the records.
    """
    scalars = [name for name, type_ in fields.items() if type_ in _SCALARS]
    own, owner = words(parameter), singular(resource)
    # A parameter for either of two fields, such as `roleIdOrLabel`, counts as the first.
    own = own[: own.index("or")] if "or" in own[1:] else own
    if exact := first_of(scalars, ["".join(own), _OTHER_NAMES.get("".join(own), "")]):
        return exact, f"the path's parameter `{parameter}` has the same name"
    if own[: len(owner)] == owner and (short := first_of(scalars, ["".join(own[len(owner) :])])):
        return short, f"the path's parameter `{parameter}` names it"
    if own and (short := first_of(scalars, [own[-1]])):
        return short, f"the path's parameter `{parameter}` ends with its name"
    if not own or (own[-1] not in IDS and not set(own) & set(owner)):
        return None
    alike = [name for name in scalars if kind not in _SCALARS or fields[name] == kind]
    if known := first_of(alike, IDS) or first_of(scalars, _SURE):
        return known, f"it is the likeliest to identify what the path's parameter `{parameter}` does"
    return None


def primary_key(
    fields: Mapping[str, str], resource: str, detail: tuple[str, str] | None, own: str | None = None
) -> tuple[str, str] | None:
    """Return the field that identifies a record, and the reason; None if none seems to.

    detail: the path parameter that reads a single record, and its type. It may be a code or slug that changes or is
    reused, so a field with an identifier's name takes precedence over it. own: the field that identifies most records.
    """
    scalars = [name for name, type_ in fields.items() if type_ in _SCALARS]
    owner = "".join(singular(resource))
    likely = first_of(scalars, [*_SURE, *(f"{owner}{each}" for each in _SURE), *([plain(own)] if own else [])])
    guess = None if detail is None else field_of(*detail, fields, resource)
    if guess is not None and (likely is None or {*words(guess[0])[-1:]} & {*_SURE}):
        return guess
    return None if likely is None else (likely, "of its name")


def common_key(streams: Sequence[Mapping[str, str]], resources: Sequence[str]) -> str | None:
    """Return the identifier that most records have, such as `acme_id` for an API called Acme; None if there is none.

    streams: types of the fields. resources: the paths' names for the records; a field named after one refers to it.
    """
    owners = {tuple(singular(each)) for each in resources}
    counted = Counter(
        name
        for fields in streams
        for name, kind in fields.items()
        if kind in _SCALARS and len(own := words(name)) > 1 and own[-1] in _SURE and tuple(own[:-1]) not in owners
    )
    name, count = next(iter(counted.most_common(1)), ("", 0))
    return name if count > max(2, len(streams) / 2) else None
