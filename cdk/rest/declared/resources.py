"""resource: a stream of a RestSource as data, and the validation of all resources of a source."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import TypeAlias

from cdk.base.errors import ConfigError
from cdk.base.values import FieldValue, JsonValue
from cdk.base.wording import did_you_mean
from cdk.rest.declared.options import option_problems, with_known_options
from cdk.rest.declared.placeholders import Placeholder, placeholders
from cdk.rest.errors.error_handler import ErrorHandler
from cdk.rest.pagination.paginator import Paginator
from cdk.rest.records.decoder import Decoder
from cdk.streams.cursor import Cursor

Config: TypeAlias = Mapping[str, FieldValue]

OWN_SCOPES = ("config", "window")


@with_known_options
@dataclass(frozen=True)
class resource:  # noqa: N801 - reads as a call, in a list of them
    """A stream of a RestSource: the same attributes as an HttpStream, declared without a class.

    name: of the stream. path: of its records, relative to the source's URL, or a full URL.
    records_path: the path of the records in a body; one name, or several. primary_key: one field, or several.
    paginator, decoder, error_handler: like the two above, default to those of the source. decoder: reads the bodies,
        such as `Jsonl()` or `GzipFile(CsvRows())`; JSON by default.
    params, headers: of every page; a null parameter is omitted. body_json: sent with a POST, instead of a GET.
    cursor: a cursor, or a function that returns it for a config.
    record_filter: only records whose fields have these values are read; a list allows any of its values. Include null
        for a field that some records lack.
    add_fields: fields that are added to each record.
    follows_parent: read only for parent records that are new by the parent's cursor. For children that never change
        unless their parent record does. Needs a `cursor` of its own, for a resource without one is read in full.
    schema: a JSON Schema or a pydantic model; defaults to the file `schemas/<name>.json` beside the module. Without
        either, tables and `discover --infer` infer the types from the records.

    Path, parameters, headers, body and added fields may contain placeholders: `{config.NAME}`, `{window.start}` and
    `{window.end}` of the cursor's window, and `{RESOURCE.FIELD}` of another resource, the parent. This resource is then
    read for each record of its parent, each of which has a position of its own. Added fields may use any field of the
    parent's records, but of the resources above the parent only the fields that the parent's own request uses.
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
    decoder: Decoder | None = None
    error_handler: ErrorHandler | None = None
    cursor: Cursor | Callable[[Config], Cursor] | None = None
    record_filter: Mapping[str, JsonValue] = field(default_factory=dict)
    add_fields: Mapping[str, JsonValue] = field(default_factory=dict)
    follows_parent: bool = False
    schema: Mapping[str, object] | type | None = None

    def problems(self) -> Iterator[str]:
        """Yield a text for each option whose value is of another type than it has to be."""
        values = ((each, getattr(self, each.name)) for each in fields(self))
        yield from option_problems({each.name: value for each, value in values if value is not each.default})

    def requested(self) -> Iterator[Placeholder]:
        """Yield the placeholders of its request."""
        for option in (self.path, self.params, self.headers, self.body_json):
            yield from placeholders(option)

    def named(self) -> list[str]:
        """Return the names of the resources that its request uses, each once."""
        return list(dict.fromkeys(each.scope for each in self.requested() if each.scope not in OWN_SCOPES))


class Family:
    """All resources of a source, and which of them is the parent of which.

    Raises ConfigError: listing every error, such as duplicate names, unknown placeholders and cycles of parents.
    """

    def __init__(self, resources: Sequence[resource]) -> None:
        self.members = {each.name: each for each in resources}
        names = [each.name for each in resources]
        errors = [
            f"{name}: two resources have this name; rename one of them"
            for name in self.members
            if names.count(name) > 1
        ]
        errors += [
            f"{name}: a resource cannot have this name, which placeholders reserve; rename it"
            for name in self.members
            if name in OWN_SCOPES
        ]
        for each in resources:
            try:
                errors += [f"{each.name}: {error}" for error in self._errors(each)]
            except ConfigError as error:
                errors.append(f"{each.name}: {error}")
        if errors:
            raise ConfigError("\n".join(dict.fromkeys(errors)))

    def parent(self, member: resource) -> resource | None:
        """Return the parent, for each of whose records `member` is read; None if it has none."""
        named = member.named()
        return next((self.members[name] for name in named if self._ancestors(name) >= set(named)), None)

    def links(self, member: resource) -> dict[str, str]:
        """Return the fields of the partitions, each with the field of the parent's records that it comes from."""
        parent = self.parent(member)
        return {field_of(each): each.field for each in member.requested() if parent and each.scope == parent.name}

    def inherited(self, member: resource) -> set[str]:
        """Return the names of the fields of its partitions, including those of resources above the parent."""
        parent = self.parent(member)
        return set() if parent is None else {*self.inherited(parent), *self.links(member)}

    def _ancestors(self, name: str) -> set[str]:
        """Return a resource and all resources above it. Raises ConfigError: when it is its own ancestor."""
        line, rest = {name}, [(name, above) for above in self.members[name].named()]
        while rest:
            child, above = rest.pop()
            if above == name:
                raise ConfigError(
                    f"is its own ancestor: {child} uses its records, and it uses those of {child}; remove the "
                    "placeholder from one of the two requests"
                )
            if above in self.members and above not in line:
                line.add(above)
                rest += [(above, further) for further in self.members[above].named()]
        return line

    def _errors(self, member: resource) -> Iterator[str]:
        named, requested = member.named(), [*member.requested()]
        everything = [*requested, *placeholders(member.add_fields)]
        unknown = [each for each in everything if each.scope not in {*OWN_SCOPES, *self.members}]
        for each in unknown:
            yield f"{each}: there is no such resource{did_you_mean(each.scope, {*OWN_SCOPES, *self.members})}"
        for each in everything:
            if each.scope == "window" and member.cursor is None:
                yield f"{each}: the resource has no cursor; add one"
            elif each.scope == "window" and each.field not in {"start", "end"}:
                yield f"{each}: a window has no such field{did_you_mean(each.field, ['start', 'end'])}"
        if unknown:
            return
        self._ancestors(member.name)
        parent = self.parent(member)
        if named and parent is None:
            yield (
                f"is read for the records of {' and '.join(named)}, neither of which is an ancestor of the other; use "
                "a field of the one in the request of the other"
            )
            return
        yield from _following_problems(member, parent)
        inherited = self.inherited(member)
        for each in everything:
            if each.scope in {*OWN_SCOPES, parent and parent.name} or field_of(each) in inherited:
                continue
            yield (
                f"{each}: expected a field of {parent.name}; add it to those records by `add_fields`, and use that"
                if parent
                else f"{each}: the request uses no field of {each.scope}; use one there"
            )


def _following_problems(member: resource, parent: resource | None) -> Iterator[str]:
    if not member.follows_parent:
        return
    if parent is None or parent.cursor is None:
        yield "follows_parent: the request uses no resource with a cursor; use one, or leave follows_parent out"
    elif member.cursor is None:
        # Without one it is read in full, and has no state that could say how far its parent was read.
        yield (
            "follows_parent: the resource has no cursor, and would be read for all records of its parent each time; "
            "give it a cursor of its own, or leave follows_parent out"
        )


def field_of(placeholder: Placeholder) -> str:
    """Return the name of the partition's field that has the value of a placeholder."""
    return f"{placeholder.scope}.{placeholder.field}"
