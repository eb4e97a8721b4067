"""Component: a node of a manifest. Model, schema and builder are one class, so a new component is one file.

A component is chosen by its `type`. A field that takes any component of a kind is annotated with a family, an
abstract component such as `AnyDecoder` (see `cdk.declarative.model.plug_points`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from cdk.base.validation_messages import shown
from cdk.base.values import JsonValue
from cdk.base.wording import did_you_mean


class Registry(Mapping[str, type["Component"]]):
    """The components by type. A module is imported when a class is asked for that it defines, or all are."""

    def __init__(self) -> None:
        self._made: dict[str, type[Component]] = {}
        self._modules: dict[str, str] = {}

    def expect(self, module: str, classes: Sequence[str]) -> None:
        """Know that a module defines these classes, components among them."""
        self._modules.update(dict.fromkeys(classes, module))

    def add(self, name: str, kind: type["Component"]) -> None:
        """Take in a class. Raises TypeError: there is another of that type."""
        known = self._made.setdefault(name, kind)
        if (known.__module__, known.__qualname__) != (kind.__module__, kind.__qualname__):
            raise TypeError(f"two components are called {name!r}: {known} and {kind}")

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


class Component(BaseModel):
    """A typed object of a manifest. Subclass it, declare its fields, write `build`.

    Its `type` is the name of the class, or what the class is made with: `class Name(AnyDecoder, type="OtherName")`;
    `type=None` makes a family, of which `default` is the member that an object without a type is, and `custom` the one
    that it is when it has a `class_name`.

    parameters: the `$parameters` of this component and of those around it, merged.
    Fields that a component does not know are ignored: parameters are copied onto every component as fields.
    """

    model_config = ConfigDict(
        extra="ignore", frozen=True, populate_by_name=True, defer_build=True, arbitrary_types_allowed=True
    )

    registry: ClassVar[Registry] = Registry()
    implied: ClassVar["Default | None"] = None
    """Of a family: what an object without a `type` is."""
    secret_fields: ClassVar[frozenset[str]] = frozenset()
    """Fields whose text is a credential, and so is to be an expression that takes it from the config."""

    parameters: Mapping[str, JsonValue] = Field(default_factory=dict, alias="$parameters", repr=False)

    def __init_subclass__(
        cls,
        *,
        type: str | None = "",
        default: str = "",
        custom: str = "",
        **config: Any,  # noqa: ANN401 - pydantic's
    ) -> None:
        super().__init_subclass__(**config)
        if default or custom:
            cls.implied = Default(default, custom)
        if type is not None:
            name = type or cls.__name__
            # Before pydantic looks for fields.
            cls.__annotations__ = {"type": Annotated[Literal[name], Field(name)], **cls.__annotations__}

    @classmethod
    def __pydantic_init_subclass__(cls, **_: object) -> None:
        if (name := cls.type_name()) is not None:
            Component.registry.add(name, cls)

    @classmethod
    def type_name(cls) -> str | None:
        """The `type` of this component; None for a family."""
        field = cls.__annotations__.get("type")
        return None if field is None else str(get_args(get_args(field)[0])[0])

    def below(self) -> Iterator["Component"]:
        """The components that its fields hold."""
        for value in self.__dict__.values():
            for part in value if isinstance(value, list) else (value,):
                if isinstance(part, Component):
                    yield part

    @classmethod
    def member(cls, name: object) -> type[Self] | None:
        """The component of this family that has a type; None where there is none."""
        kind = Component.registry.get(name) if isinstance(name, str) else None
        return kind if kind is not None and issubclass(kind, cls) else None

    @classmethod
    def members(cls) -> dict[str, type[Self]]:
        """The components of this family, by type."""
        return {name: kind for name, kind in Component.registry.items() if issubclass(kind, cls)}

    @classmethod
    def __get_pydantic_core_schema__(cls, source: type[BaseModel], handler: GetCoreSchemaHandler) -> CoreSchema:
        if cls is Component or cls.type_name() is not None:
            return handler(source)
        return core_schema.no_info_plain_validator_function(cls.pick)

    @classmethod
    def pick(cls, value: object) -> Self:
        """The member of this family that `value` names. Raises PydanticCustomError, or the member's own errors."""
        if isinstance(value, cls):
            return value
        if cls.implied is not None:
            value = cls.implied.fill(value)
        kind = cls.__name__.removeprefix("Any")
        if not isinstance(value, Mapping):
            raise PydanticCustomError(
                "component",
                "found {found}, expected a component: an object with a `type` ({kind})",
                {"found": shown(value), "kind": kind},
            )
        name = value.get("type")
        if name is None:
            known = ", ".join(sorted(cls.members()))
            raise PydanticCustomError(
                "component", "has no `type`, expected one of {known}", {"known": known, "kind": kind}
            )
        if (member := cls.member(name)) is None:
            hint = did_you_mean(str(name), cls.members())
            if (known_kind := Component.registry.get(str(name))) is not None:
                hint = f": a {known_kind.__name__} cannot stand here{hint}"
            raise PydanticCustomError(
                "component_type",
                "found the type {name}, expected a {kind}{hint}",
                {"name": repr(name), "kind": kind, "hint": hint},
            )
        return member.model_validate(value)


@dataclass(frozen=True, slots=True)
class Default:
    """The type of a component that has none. custom: of one that has a `class_name`. Empty: it must have one."""

    type: str
    custom: str

    def fill(self, value: object) -> object:
        """`value` with a `type`, if it is an object without one."""
        if isinstance(value, Mapping) and "type" not in value and (implied := self.of(value)) is not None:
            return {**value, "type": implied}
        return value

    def of(self, value: Mapping[str, object]) -> str | None:
        """The type that an object without one has; None where there is none."""
        return (self.custom if "class_name" in value else self.type) or None


def _listed(value: object) -> object:
    return [value] if isinstance(value, Mapping) else value


ONE_OR_MANY = BeforeValidator(_listed)
"""Marks a list that may also be written as its one element."""
