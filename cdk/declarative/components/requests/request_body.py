"""Bodies of requests: plain text, forms, JSON and GraphQL."""

from collections.abc import Callable

from msgspec import Struct

from cdk.base.values import JsonObject, JsonValue, to_json
from cdk.declarative.model.context import BuildContext, Names
from cdk.declarative.model.request_builder import RequestBuilder
from cdk.declarative.model.request_plug_points import AnyRequestBody


class RequestBodyPlainText(AnyRequestBody):
    """A body that is sent verbatim.

    Example:
        type: RequestBodyPlainText
        value: '{"since": "{{ config.start_date }}"}'
    """

    value: str
    """The body, as a string."""

    def build(self, ctx: BuildContext) -> Callable[[RequestBuilder, Names], None]:
        text = ctx.expression(self, "value")

        def fill(draft: RequestBuilder, names: Names) -> None:
            draft.text = text.text(names)

        return fill


class RequestBodyUrlEncodedForm(AnyRequestBody):
    """A body with the fields of a form.

    Example:
        type: RequestBodyUrlEncodedForm
        value:
          since: "{{ config.start_date }}"
    """

    value: str | JsonObject
    """The fields and their values, which are sent as strings."""

    def build(self, ctx: BuildContext) -> Callable[[RequestBuilder, Names], None]:
        fields = ctx.mapping(self, "value")

        def fill(draft: RequestBuilder, names: Names) -> None:
            for name, value in fields.value(names).items():
                draft.put("body_data", [name], value)

        return fill


class RequestBodyJsonObject(AnyRequestBody):
    """A body that is a JSON object.

    Example:
        type: RequestBodyJsonObject
        value:
          filter: {since: "{{ config.start_date }}"}
    """

    value: str | JsonObject
    """The object; strings in it may be expressions."""

    def build(self, ctx: BuildContext) -> Callable[[RequestBuilder, Names], None]:
        body = ctx.nested(self, "value")
        return lambda draft, names: fill_json(draft, body.value(names))


class GraphQlQuery(Struct, frozen=True):
    """A GraphQL query, and the keys that are sent beside it."""

    query: str
    """The GraphQL query."""
    further_fields: JsonObject = {}
    """What is sent beside it, such as `variables`."""


class RequestBodyGraphQL(AnyRequestBody):
    """A body with a GraphQL query.

    Example:
        type: RequestBodyGraphQL
        value:
          query: "query { users { id } }"
          variables: {limit: 10}
    """

    value: GraphQlQuery
    """The query; other keys, such as `variables`, are sent with it."""

    def build(self, ctx: BuildContext) -> Callable[[RequestBuilder, Names], None]:
        body = ctx.nested(self, "value", {"query": self.value.query, **self.value.further_fields})
        return lambda draft, names: fill_json(draft, body.value(names))


def fill_json(draft: RequestBuilder, body: JsonValue) -> None:
    """Add a JSON body to a draft: an object's keys join those already set; a string is sent as JSON verbatim."""
    if isinstance(body, str):
        draft.text, draft.headers["Content-Type"] = body, "application/json"
    elif isinstance(body, dict):
        for name, value in body.items():
            draft.put("body_json", [name], value)
    elif body:
        draft.text, draft.headers["Content-Type"] = to_json(body).decode(), "application/json"
