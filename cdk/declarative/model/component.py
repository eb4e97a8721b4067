"""Component: a node of a manifest. Model, schema and builder are one class, so a new component is one file.

The `type` of an object selects its component. A field that takes any component of a kind is annotated with a family: an
abstract component such as `AnyDecoder` (see `cdk.declarative.model.plug_points`).
"""

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from msgspec import Struct
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, GetCoreSchemaHandler, model_validator
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from cdk.base.values import JsonValue
from cdk.base.wording import did_you_mean, shown


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


class Component(BaseModel):
    """A typed object of a manifest. Subclass it, declare its fields, write `build`.

    Its `type` is the name of the class, or a keyword of the class: `class Name(AnyDecoder, type="OtherName")`.
    `type=None` makes a family. An object without a `type` then becomes the family's member named by `default`, or by
    `custom` if it has a `class_name`.

    parameters: the `$parameters` of this component and of the components around it, merged.
    Unknown fields are ignored, because parameters are copied onto every component as fields.
    """

    model_config = ConfigDict(
        extra="ignore", frozen=True, populate_by_name=True, defer_build=True, arbitrary_types_allowed=True
    )

    registry: ClassVar[Registry] = Registry()
    implied: ClassVar["Default | None"] = None
    """Of a family: the type of an object without a `type`."""
    secret_fields: ClassVar[frozenset[str]] = frozenset()
    """Fields that hold a credential, so their text should be an expression that reads it from the config."""

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
            # Must happen before pydantic collects the fields.
            cls.__annotations__ = {"type": Annotated[Literal[name], Field(name)], **cls.__annotations__}

    @classmethod
    def __pydantic_init_subclass__(cls, **_: object) -> None:
        if (name := cls.type_name()) is not None:
            Component.registry.add(name, cls)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, value: object) -> object:
        """Leave out fields that are null and need not be there: they have their default."""
        if not isinstance(value, Mapping) or None not in value.values():
            return value
        optional = {name for name, field in cls.model_fields.items() if not field.is_required()}
        return {name: item for name, item in value.items() if item is not None or name not in optional}

    @classmethod
    def type_name(cls) -> str | None:
        """The `type` of this component; None for a family."""
        field = cls.__annotations__.get("type")
        return None if field is None else str(get_args(get_args(field)[0])[0])

    def below(self) -> Iterator["Component"]:
        """Yield the components in the fields of this one."""
        for value in self.__dict__.values():
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

    @classmethod
    def __get_pydantic_core_schema__(cls, source: type[BaseModel], handler: GetCoreSchemaHandler) -> CoreSchema:
        if cls is Component or cls.type_name() is not None:
            return handler(source)
        return core_schema.no_info_plain_validator_function(cls.pick)

    @classmethod
    def pick(cls, value: object) -> Self:
        """Validate `value` as the member its `type` names. Raises PydanticCustomError, or the member's own errors."""
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
                hint = f": a {known_kind.__name__} is not allowed here{hint}"
            raise PydanticCustomError(
                "component_type",
                "found the type {name}, expected a {kind}{hint}",
                {"name": repr(name), "kind": kind, "hint": hint},
            )
        return member.model_validate(value)


class Default(Struct, frozen=True):
    """The implied type of an object without a `type`. custom: if it has a `class_name`. Empty: a `type` is required."""

    type: str
    custom: str

    def fill(self, value: object) -> object:
        """Return `value`, with the implied `type` added if it is an object without one."""
        if isinstance(value, Mapping) and "type" not in value and (implied := self.of(value)) is not None:
            return {**value, "type": implied}
        return value

    def of(self, value: Mapping[str, object]) -> str | None:
        """Return the type implied for an object without one; None if no type is implied."""
        return (self.custom if "class_name" in value else self.type) or None


def _listed(value: object) -> object:
    return [value] if isinstance(value, Mapping) else value


ONE_OR_MANY = BeforeValidator(_listed)
"""Marks a list field that also accepts its single element without the list."""
