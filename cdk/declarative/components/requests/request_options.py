"""The places for a value in a request: `RequestOption` and `RequestPath`."""

from collections.abc import Callable
from typing import ClassVar, TypeAlias

from cdk.base.values import JsonValue
from cdk.declarative.model.component import Component
from cdk.declarative.model.context import BuildContext
from cdk.declarative.model.request_builder import RequestBuilder
from cdk.rest.http.messages import RequestPart

Put: TypeAlias = Callable[[RequestBuilder, JsonValue], None]
"""Puts one value into a request, at the place of an option."""


def is_empty(value: JsonValue) -> bool:
    """Whether a value is empty, so that requests omit it. 0 and false are not empty: they may identify a partition."""
    return value in (None, "", [], {})


class AnyPageTokenOption(Component):
    """Puts the page token into a request."""

    says_size: ClassVar[bool] = False
    """Whether the token also determines the page size."""

    def build(self, ctx: BuildContext) -> Put:
        """Return the function that puts a token into a request."""
        raise NotImplementedError


def put_at(option: AnyPageTokenOption | None, ctx: BuildContext) -> Put | None:
    """Return the function that puts a value into a request at the place of an option; None without an option."""
    return None if option is None else option.build(ctx)


class RequestOption(AnyPageTokenOption):
    """A place in a request: a query parameter, a header, a field of the form or of the JSON body.

    Example:
        type: RequestOption
        inject_into: request_parameter
        field_name: page
    """

    inject_into: RequestPart
    """The part of the request."""
    field_name: str | None = None
    """Name of the parameter, header or field."""
    field_path: list[str] | None = None
    """Path in the JSON body, instead of `field_name`."""

    def __post_init__(self) -> None:
        if (self.field_name is None) == (self.field_path is None):
            raise ValueError("a RequestOption needs either field_name or field_path, and not both")
        if self.field_path is not None and self.inject_into != "body_json":
            raise ValueError("field_path is for inject_into: body_json; use field_name elsewhere")

    def build(self, ctx: BuildContext) -> Put:
        part, path = self.inject_into, self.path(ctx)
        return lambda draft, value: draft.put(part, path, value)

    def path(self, ctx: BuildContext) -> tuple[str, ...]:
        """Return the name of the field, or its path in a JSON body."""
        if self.field_path is None:
            return (ctx.expression(self, "field_name").text(),)
        return ctx.strings(self, "field_path")


class RequestPath(AnyPageTokenOption):
    """Requests a page by its token, which is a URL or a path.

    Example:
        type: RequestPath
    """

    says_size = True

    def build(self, ctx: BuildContext) -> Put:
        return lambda draft, token: draft.follow(str(token))
