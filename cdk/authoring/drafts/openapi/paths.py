"""Paths with parameters: some come from the config, others from the records of a parent stream."""

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from cdk.authoring.drafts.draft import ConfigFields, Guess, Parameter, expression
from cdk.authoring.drafts.keys import field_of
from cdk.authoring.drafts.names import PARAMETER, first_of, path_parameters, plain, segments, shape, singular, snake
from cdk.authoring.drafts.openapi.description import Operation
from cdk.base.values import SIMPLE_TYPES, JsonObject, as_string

_GENERAL = {"id", "uuid", "guid", "key", "name", "slug", "code", "number"}
_LONGEST_TITLE = 100


class ParentKey(Struct, frozen=True):
    """A parent's key in a path. names: possible names of the field that holds it in records; kind: its type.

    field: of the partition that is `up` levels above the stream's own.
    """

    field: str
    names: Sequence[str]
    kind: str
    up: int = 0

    @property
    def value(self) -> str:
        """The expression of the key's value."""
        return expression("".join(["stream_partition", *["['parent_slice']"] * self.up, f"['{self.field}']"]))


class BoundPath(Struct, frozen=True):
    """A path with an expression for each parameter. router: None if there is no parent.

    levels: for each expression the parent's key that it stands for; None for a value of the config.
    """

    template: str
    values: Sequence[str]
    levels: Sequence[ParentKey | None]
    router: JsonObject | None = None
    guesses: Sequence[Guess] = ()

    def keys(self, kinds: Mapping[str, str]) -> Mapping[str, ParentKey | None]:
        """Return the parents' keys by their field in records; None for a field that the records have themselves.

        kinds: the types of the records' fields.
        """
        keys: dict[str, ParentKey | None] = {}
        for level in filter(None, self.levels):
            for name in level.names:
                own = first_of(kinds, [plain(name)])
                if own is None or kinds[own] == level.kind:
                    keys[own or name] = level if own is None else None
                    break
        return keys

    @property
    def path(self) -> str:
        """The path for a manifest, with expressions."""
        values = iter(self.values)
        return PARAMETER.sub(lambda _: next(values), self.template)

    @property
    def pattern(self) -> str:
        """The path with `*` for each parameter."""
        return PARAMETER.sub("*", self.template)


class Parent(Struct, frozen=True):
    """A possible parent. resource: its path's name for the records; kinds: the types of their fields."""

    operation: Operation
    stream: str
    resource: str
    kinds: Mapping[str, str]


class Paths:
    """The paths of all streams, any of which may be a parent."""

    def __init__(self, parents: Sequence[Parent], config: ConfigFields) -> None:
        self._config = config
        self._parents = {shape(each.operation.resource_path): each for each in parents}
        self._by_resource: dict[str, list[Parent]] = {}
        for each in parents:
            self._by_resource.setdefault(each.resource, []).append(each)
        self._above: dict[str, str] = {}

    def bound(self, operation: Operation) -> BoundPath:
        """Bind the parameters of an operation's path; the last one that a parent has takes its values from there."""
        names, known = path_parameters(operation.path), operation.located("path")
        for index in reversed(range(len(names))):
            before = operation.path[: [match.start() for match in PARAMETER.finditer(operation.path)][index]]
            if not before.endswith("/") or (parent := self._parent(operation.path, before)) is None:
                continue
            kind = as_string(known[names[index]].schema.get("type")) if names[index] in known else ""
            if (guess := field_of(names[index], kind, parent.kinds, parent.resource)) is not None:
                self._above[operation.path] = parent.operation.path
                return self._child(operation, index, parent, *guess)
        values = [self._value(operation, name) for name in names]
        return BoundPath(operation.path, values, [None] * len(names))

    def _parent(self, path: str, before: str) -> Parent | None:
        """Return the collection at the path before a parameter, or the only one of `teams` in `/teams/{id}/members`."""
        if (parent := self._parents.get(shape(before))) is not None:
            return parent
        parts = segments(before)
        alike = self._by_resource.get(parts[-1], []) if parts and not path_parameters(before) else []
        if len(alike) != 1 or alike[0].operation.path == path or self._is_below(alike[0].operation.path, path):
            return None
        return alike[0]

    def _is_below(self, path: str | None, other: str) -> bool:
        while path is not None:
            path = self._above.get(path)
            if path == other:
                return True
        return False

    def field(self, parameter: Parameter) -> str:
        """Return the expression that reads a parameter's value from the config."""
        kind = as_string(parameter.schema.get("type"))
        schema: JsonObject = {"type": kind if kind in SIMPLE_TYPES else "string", "title": _title(parameter)}
        if kind in SIMPLE_TYPES:
            schema |= {key: parameter.schema[key] for key in ("enum", "default") if key in parameter.schema}
        return self._config.add(snake(parameter.name), schema)

    def _child(self, operation: Operation, index: int, parent: Parent, key: str, why: str) -> BoundPath:
        names = path_parameters(operation.path)
        above, field = self.bound(parent.operation), snake(names[index])
        own = "_".join([*singular(parent.resource), snake(key)])
        names_ = [own, f"parent_{own}"] if plain(names[index]) in _GENERAL else [field, own, f"parent_{own}"]
        levels = [None if at is None else replace(at, up=at.up + 1) for at in above.levels[:index]]
        levels.append(ParentKey(field, names_, parent.kinds.get(key, "")))
        values = [above.values[number] if at is None else at.value for number, at in enumerate(levels)]
        rest = [self._value(operation, name) for name in names[index + 1 :]]
        config: JsonObject = {
            "type": "ParentStreamConfig",
            "stream": {"$ref": f"#/definitions/streams/{parent.stream}"},
            "parent_key": key,
            "partition_field": field,
        }
        router: JsonObject = {"type": "SubstreamPartitionRouter", "parent_stream_configs": [config]}
        what = f"a substream: `{names[index]}` of the path is `{key}` of `{parent.stream}`"
        guess = Guess(what, why, "the URLs that `spark-cdk preview` shows")
        return BoundPath(operation.path, [*values, *rest], [*levels, *[None] * len(rest)], router, [guess])

    def _value(self, operation: Operation, name: str) -> str:
        """Return the config expression of a parameter; one called `id` is prefixed by the path segment before it."""
        parameter = operation.located("path").get(name) or Parameter(name, "path", True, {"type": "string"}, "")
        before = segments(operation.path[: operation.path.index(f"{{{name}}}")])
        if plain(name) in _GENERAL and before:
            parameter = replace(parameter, name="_".join([*singular(before[-1]), name]))
        return self.field(parameter)


def _title(parameter: Parameter) -> str:
    """Return a parameter's title for a form: the first sentence of its description."""
    text = " ".join(parameter.text.split()).partition(". ")[0].rstrip(".")
    return text if 0 < len(text) <= _LONGEST_TITLE else parameter.name
