"""Component: a node of a manifest. Model, schema and builder are one class, so a new component is one file.

The `type` of an object selects its component. A field that takes any component of a kind is annotated with a family: an
abstract component such as `AnyDecoder` (see `request_plug_points` and `stream_plug_points`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import ClassVar, Self, dataclass_transform

from msgspec import Struct, field

from cdk.base.values import JsonValue


class Registry(Mapping[str, type["Component"]]):
    """The components by type. Imports a module when one of its classes is looked up, and all modules on iteration."""

    def __init__(self) -> None:
        self._made: dict[str, type[Component]] = {}
        self._modules: dict[str, str] = {}

    def expect(self, module: str, classes: Sequence[str]) -> None:
        """Register the classes that a module defines, so that looking one up imports the module."""
        self._modules.update(dict.fromkeys(classes, module))

    def add(self, name: str, kind: type["Component"]) -> None:
        """Register a class. Raises TypeError: when another class has the same type."""
        known = self._made.setdefault(name, kind)
        if (known.__module__, known.__qualname__) != (kind.__module__, kind.__qualname__):
            raise TypeError(f"two components have the name {name!r}: {known} and {kind}")

    def __getitem__(self, name: str) -> type["Component"]:
        if name not in self._made and (module := self._modules.get(name)) is not None:
            import_module(module)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def _all(self) -> Mapping[str, type["Component"]]:
        for module in set(self._modules.values()):
            import_module(module)
        return self._made


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
class Component(Struct, frozen=True, kw_only=True, tag_field="type", tag=True, omit_defaults=True):
    """A typed object of a manifest. Subclass it, declare its fields, write `build`.

    A class whose name begins with `Any` is a family. An object without a `type` then becomes the family's member that
    `implied` names. Unknown fields are ignored, because parameters are copied onto every component as fields.

    `__post_init__` raises ValueError: when valid fields do not fit each other.
    """

    registry: ClassVar[Registry] = Registry()
    type_name: ClassVar[str | None] = None
    """Its `type` in manifests: the name of the class, unless the class sets another; None for a family."""
    implied: ClassVar["Default | None"] = None
    """Of a family: the type of an object without a `type`."""
    secret_fields: ClassVar[frozenset[str]] = frozenset()
    """Fields that hold a credential, so their text should be an expression that reads it from the config."""

    parameters: Mapping[str, JsonValue] = field(name="$parameters", default_factory=dict)
    """The `$parameters` of this component and of the components around it, merged."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        is_family = cls.__name__.startswith("Any")
        if "type_name" not in vars(cls):
            cls.type_name = None if is_family else cls.__name__
        if cls.type_name is not None:
            Component.registry.add(cls.type_name, cls)

    def below(self) -> Iterator["Component"]:
        """Yield the components in the fields of this one."""
        for name in self.__struct_fields__:
            value = getattr(self, name)
            for part in value if isinstance(value, list) else (value,):
                if isinstance(part, Component):
                    yield part

    @classmethod
    def member(cls, name: object) -> type[Self] | None:
        """Return the component of this family with the type `name`; None if there is no such member."""
        kind = Component.registry.get(name) if isinstance(name, str) else None
        return kind if kind is not None and issubclass(kind, cls) else None

    @classmethod
    def members(cls) -> dict[str, type[Self]]:
        """Return the components of this family by type."""
        return {name: kind for name, kind in Component.registry.items() if issubclass(kind, cls)}


class Default(Struct, frozen=True):
    """The implied type of an object without a `type`. custom: if it has a `class_name`. Empty: a `type` is required."""

    type: str = ""
    custom: str = ""

    def fill(self, value: object) -> object:
        """Return `value`, with the implied `type` added if it is an object without one."""
        if isinstance(value, Mapping) and "type" not in value and (implied := self.of(value)) is not None:
            return {**value, "type": implied}
        return value

    def of(self, value: Mapping[str, object]) -> str | None:
        """Return the type implied for an object without one; None if no type is implied."""
        return (self.custom if "class_name" in value else self.type) or None


class Adapted(Struct, frozen=True):
    """Marks a field whose value a function changes: before it is checked, or after.

    The function raises ValueError: when the value is invalid.
    """

    before: Callable[[JsonValue], object] | None = None
    after: Callable[..., object] | None = None


class OneOrMany(Struct, frozen=True):
    """Marks a list field that also accepts its single element without the list."""


ONE_OR_MANY = OneOrMany()
