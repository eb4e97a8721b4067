"""Patches: what turns one JSON object into another, as JSON. Its size follows what changed, not what is there.

    {"set": {"new or changed": ...}, "drop": ["gone"], "in": {"an object": {a patch of it}}}

Only objects are looked into; a list is set as a whole. So what grows large belongs into objects, by key.
"""

from cdk.base.values import Json, canonical

_PLAIN = (str, int, bool, type(None))


def diff(old: dict[str, Json], new: dict[str, Json]) -> dict[str, Json]:
    """The patch from `old` to `new`; empty when they have the same canonical text."""
    changed: dict[str, Json] = {}
    inside: dict[str, Json] = {}
    for key in _different(old, new):
        before, value = old.get(key), new[key]
        if isinstance(before, dict) and isinstance(value, dict):
            inside[key] = diff(before, value)
        else:
            changed[key] = value
    dropped = [key for key in old if key not in new]
    parts = {"set": changed, "drop": dropped, "in": inside}
    return {name: part for name, part in parts.items() if part}


def apply(old: dict[str, Json], patch: dict[str, Json]) -> dict[str, Json]:
    """`old` as the patch changes it. Consumes `old`: it may hold the result."""
    for key in patch.get("drop", ()):
        del old[key]
    for key, inner in patch.get("in", {}).items():
        old[key] = apply(old[key], inner)
    old.update(patch.get("set", {}))
    return old


def _different(old: dict[str, Json], new: dict[str, Json]) -> list[str]:
    """The keys of `new` whose values have another canonical text in `old`, or none.

    1, 1.0 and true are equal in Python and have three texts, 0.0 and -0.0 have two; inside of maps and lists only the
    text tells. One text of a million equal values is far cheaper than a million texts.
    """
    different: list[str] = []
    doubtful: list[str] = []
    missing = object()
    for key, value in new.items():
        before = old.get(key, missing)
        if type(before) is not type(value) or before != value:
            different.append(key)
        elif type(value) not in _PLAIN:
            doubtful.append(key)
    if canonical([old[key] for key in doubtful]) != canonical([new[key] for key in doubtful]):
        different.extend(key for key in doubtful if canonical(old[key]) != canonical(new[key]))
    return different
