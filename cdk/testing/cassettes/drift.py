"""Drift: how an API's responses differ from those that were recorded."""

from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import urlsplit

import orjson
from msgspec import Struct, field

from cdk.base.values import JSON_TYPES, from_json, walk
from cdk.testing.cassettes.interactions import Interaction, Recording
from cdk.testing.cassettes.matching import Sent, recorded


class _Endpoint(Struct):
    """The observed traffic of a method and path. fields: the types of each field, keyed by its path in the body."""

    requests: set[Sent] = field(default_factory=set)
    statuses: set[int] = field(default_factory=set)
    fields: dict[str, set[str]] = field(default_factory=dict)


def drift(before: Recording, now: Recording) -> list[str]:
    """Compare two recordings of a connector, by method and path: requests, statuses, fields and their types."""
    old, new = _endpoints(before.interactions), _endpoints(now.interactions)
    lines = []
    for name in sorted({*old, *new}):
        if name not in new:
            lines.append(f"{name}: recorded, not requested now")
        elif name not in old:
            lines.append(f"{name}: requested now, not recorded")
        else:
            lines += [f"{name}: {text}" for text in _differences(old[name], new[name])]
    return lines


def _differences(old: _Endpoint, new: _Endpoint) -> Iterator[str]:
    if old.statuses != new.statuses:
        yield f"status {_listed(old.statuses)} recorded, {_listed(new.statuses)} now"
    # Requests form a set, so repeats, as when polling a job, count once: their number depends on timing.
    if len(old.requests) != len(new.requests):
        yield f"{len(old.requests)} requests recorded, {len(new.requests)} now"
    for name in sorted({*old.fields, *new.fields}):
        before, now = old.fields.get(name), new.fields.get(name)
        if before is None:
            yield f"field {name} is new ({_listed(now or ())})"
        elif now is None:
            yield f"field {name} is missing"
        elif before != now:
            yield f"field {name} was {_listed(before)}, is {_listed(now)}"


def _listed(values: Sequence[object] | set[int] | set[str]) -> str:
    return " or ".join(sorted(map(str, values)))


def _endpoints(interactions: Sequence[Interaction]) -> Mapping[str, _Endpoint]:
    endpoints: dict[str, _Endpoint] = {}
    for interaction in interactions:
        endpoint = endpoints.setdefault(f"{interaction.method} {urlsplit(interaction.url).path}", _Endpoint())
        endpoint.requests.add(recorded(interaction))
        endpoint.statuses.add(interaction.status)
        try:
            for keys, value in walk(from_json(interaction.content)):
                name = "".join("[]" if isinstance(key, int) else f".{key}" for key in keys).removeprefix(".")
                endpoint.fields.setdefault(name, set()).add(JSON_TYPES.get(type(value), "number"))
        except orjson.JSONDecodeError:
            endpoint.fields.setdefault("(no JSON)", set()).add("text")
    return endpoints
