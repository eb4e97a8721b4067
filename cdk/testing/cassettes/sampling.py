"""Sampling: fewer records of each page, where a read still asks for the same pages."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from urllib.parse import urlsplit

import orjson

from cdk.base.values import FieldValue, from_json, to_json
from cdk.testing.cassettes.interactions import Interaction
from cdk.testing.cassettes.matching import Sent, recorded


def sampled(
    interactions: Sequence[Interaction],
    keep: int,
    requested: Callable[[Sequence[Interaction]], Collection[Sent] | None],
) -> Sequence[Interaction]:
    """The interactions with at most `keep` objects in each list, the last one among them.

    A path whose pages hang on what would be cut, such as pages that are counted or begin after a record, stays as it
    is. What is only asked because of records that are cut, such as the children of a parent, goes with them.
    requested: what a read from these interactions asks for; None where it asks for what is not there.
    """
    result, done = list(interactions), set[str]()
    while fresh := [path for interaction in result if (path := _path(interaction)) not in done]:
        path = fresh[0]
        done.add(path)
        fewer = [_cut(interaction, keep) if _path(interaction) == path else interaction for interaction in result]
        requests = requested(fewer) if fewer != result else None
        if requests is None:
            continue
        reachable = [interaction for interaction in fewer if recorded(interaction) in requests]
        # Of a path that is read at all, all pages are.
        if all(recorded(interaction) in requests for interaction in fewer if _path(interaction) == path):
            result = reachable
    return result


def _path(interaction: Interaction) -> str:
    return f"{interaction.method} {urlsplit(interaction.url).path}"


def _cut(interaction: Interaction, keep: int) -> Interaction:
    try:
        body = from_json(interaction.content)
    except orjson.JSONDecodeError:
        return interaction
    cut = _fewer(body, keep)
    return interaction if cut == body else replace(interaction, content=to_json(cut))


def _fewer(value: FieldValue, keep: int) -> FieldValue:
    match value:
        case list() if value and all(isinstance(item, dict) for item in value):
            return value if len(value) <= keep else [*value[: keep - 1], value[-1]]
        case dict():
            return {name: _fewer(item, keep) for name, item in value.items()}
        case _:
            return value
