"""Drift: how an API's responses, and the requests for them, differ from those that were recorded."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import orjson
from msgspec import Struct, field

from cdk.base.values import JSON_TYPES, from_json, walk
from cdk.testing.cassettes.interactions import Interaction, Recording
from cdk.testing.cassettes.matching import RequestIdentity, recorded_identity


class _Endpoint(Struct):
    """The traffic of a method and path. fields: the JSON types of each field, by its path, as in `items[].id`."""

    requests: set[RequestIdentity] = field(default_factory=set)
    statuses: set[int] = field(default_factory=set)
    fields: dict[str, set[str]] = field(default_factory=dict)


def drift(before: Recording, now: Recording) -> list[str]:
    """Return how two recordings of a connector differ, a line for each difference of a method and path, sorted.

    Compared are the numbers of distinct requests, the statuses, and the fields of JSON responses with their types.
    """
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


def _listed(values: Iterable[object]) -> str:
    return " or ".join(sorted(map(str, values)))


def _endpoints(interactions: Sequence[Interaction]) -> Mapping[str, _Endpoint]:
    endpoints: dict[str, _Endpoint] = {}
    for interaction in interactions:
        endpoint = endpoints.setdefault(interaction.endpoint, _Endpoint())
        endpoint.requests.add(recorded_identity(interaction))
        endpoint.statuses.add(interaction.status)
        try:
            for keys, value in walk(from_json(interaction.content)):
                name = "".join("[]" if isinstance(key, int) else f".{key}" for key in keys).removeprefix(".")
                endpoint.fields.setdefault(name, set()).add(JSON_TYPES.get(type(value), "number"))
        except orjson.JSONDecodeError:
            endpoint.fields.setdefault("(no JSON)", set()).add("text")
    return endpoints
