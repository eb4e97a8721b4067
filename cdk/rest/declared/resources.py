"""resource: a stream of a RestSource as data, and its slips."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TypeAlias

from cdk.base.errors import ConfigError
from cdk.base.values import FieldValue, JsonValue
from cdk.base.wording import did_you_mean
from cdk.rest.declared.placeholders import Placeholder, placeholders
from cdk.rest.errors.error_handler import ErrorHandler
from cdk.rest.pagination.paginator import Paginator
from cdk.streams.cursor import Cursor

Config: TypeAlias = Mapping[str, FieldValue]

OWN_SCOPES = ("config", "window")


@dataclass(frozen=True)
class resource:  # noqa: N801 - reads as a call, in a list of them
    """A stream of a RestSource: what an HttpStream has under the same names, without a class.

    name: of the stream. path: of its records behind the source's URL, or a whole URL.
    records_path: where the records lie in a body; one name, or several. primary_key: one field, or several.
    paginator, error_handler: as the two above, those of the source where it says none.
    params, headers: of every page; a parameter that is null is left out. body_json: sent with a POST, instead of a GET.
    cursor: one, or a function from the config to it.
    record_filter: the records whose fields have these values are read, a list stands for any of its values; a field
        that some records lack has null among them.
    add_fields: fields that are added to each record.
    follows_parent: read for those records alone that are new by the cursor of the resource above, where the others
        bring nothing new any more.
    schema: a JSON Schema or a pydantic model, else the file `schemas/<name>.json` beside the module; without either,
        tables and `discover --infer` take types from the records.

    Path, parameters, headers, body and added fields may have placeholders: `{config.NAME}`, `{window.start}` and
    `{window.end}` of the cursor's window, and `{RESOURCE.FIELD}` of another resource: this one is then read for each
    record of that one, and each time from where it stands. Added fields may name any field of the records of that one;
    of resources above it those that its own request names.
    """

    name: str
    path: str
    _: KW_ONLY
    records_path: str | Sequence[str] | None = None
    primary_key: str | Sequence[str] | None = None
    params: Mapping[str, JsonValue] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body_json: JsonValue = None
    paginator: Paginator | None = None
    error_handler: ErrorHandler | None = None
    cursor: Cursor | Callable[[Config], Cursor] | None = None
    record_filter: Mapping[str, JsonValue] = field(default_factory=dict)
    add_fields: Mapping[str, JsonValue] = field(default_factory=dict)
    follows_parent: bool = False
    schema: Mapping[str, object] | type | None = None

    def requested(self) -> Iterator[Placeholder]:
        """The placeholders of its request."""
        for option in (self.path, self.params, self.headers, self.body_json):
            yield from placeholders(option)

    def named(self) -> list[str]:
        """The resources that its request names, each once."""
        return list(dict.fromkeys(each.scope for each in self.requested() if each.scope not in OWN_SCOPES))


class Family:
    """Resources, and which is read for the records of which.

    Raises ConfigError with every slip: two of one name, a placeholder that nothing can fill, parents in a circle.
    """

    def __init__(self, resources: Sequence[resource]) -> None:
        self.members = {each.name: each for each in resources}
        names = [each.name for each in resources]
        slips = [
            f"{name}: two resources have this name; call one otherwise"
            for name in self.members
            if names.count(name) > 1
        ]
        slips += [
            f"{name}: a resource cannot have this name: placeholders begin with it; call it otherwise"
            for name in self.members
            if name in OWN_SCOPES
        ]
        for each in resources:
            try:
                slips += [f"{each.name}: {slip}" for slip in self._slips(each)]
            except ConfigError as error:
                slips.append(f"{each.name}: {error}")
        if slips:
            raise ConfigError("\n".join(dict.fromkeys(slips)))

    def parent(self, member: resource) -> resource | None:
        """The one whose records `member` is read for, None if it is read once."""
        named = member.named()
        return next((self.members[name] for name in named if self._above(name) >= set(named)), None)

    def links(self, member: resource) -> dict[str, str]:
        """The fields of the partitions that records of the parent make, and the fields of these that they come from."""
        parent = self.parent(member)
        return {field_of(each): each.field for each in member.requested() if parent and each.scope == parent.name}

    def inherited(self, member: resource) -> set[str]:
        """The fields of its partitions."""
        parent = self.parent(member)
        return set() if parent is None else {*self.inherited(parent), *self.links(member)}

    def _above(self, name: str) -> set[str]:
        """A resource and those above it. Raises ConfigError: it is above itself."""
        line, rest = {name}, [(name, above) for above in self.members[name].named()]
        while rest:
            child, above = rest.pop()
            if above == name:
                raise ConfigError(
                    f"is read for its own records: {child} names it, and it leads to {child}; "
                    "take the placeholder out of one of the two requests"
                )
            if above in self.members and above not in line:
                line.add(above)
                rest += [(above, further) for further in self.members[above].named()]
        return line

    def _slips(self, member: resource) -> Iterator[str]:
        named, requested = member.named(), [*member.requested()]
        everything = [*requested, *placeholders(member.add_fields)]
        unknown = [each for each in everything if each.scope not in {*OWN_SCOPES, *self.members}]
        for each in unknown:
            yield f"{each}: there is no such resource{did_you_mean(each.scope, {*OWN_SCOPES, *self.members})}"
        for each in everything:
            if each.scope == "window" and member.cursor is None:
                yield f"{each}: the resource has no cursor; give it one"
            elif each.scope == "window" and each.field not in {"start", "end"}:
                yield f"{each}: a window has no such field{did_you_mean(each.field, ['start', 'end'])}"
        if unknown:
            return
        self._above(member.name)
        parent = self.parent(member)
        if named and parent is None:
            yield (
                f"is read for the records of {' and '.join(named)}, neither of which is above the other; name the one "
                "in the request of the other"
            )
            return
        if member.follows_parent and (parent is None or parent.cursor is None):
            yield "follows_parent: no resource with a cursor is named in the request; name one, or leave it out"
        inherited = self.inherited(member)
        for each in everything:
            if each.scope in {*OWN_SCOPES, parent and parent.name} or field_of(each) in inherited:
                continue
            yield (
                f"{each}: expected a field of {parent.name}; add it to its records with `add_fields`, and name it there"
                if parent
                else f"{each}: the request names no field of {each.scope}; name one there"
            )


def field_of(placeholder: Placeholder) -> str:
    """What partitions call the value of a placeholder."""
    return f"{placeholder.scope}.{placeholder.field}"
