"""From a `RequestOption` to the location in a request that an authenticator fills."""

from collections.abc import Mapping

from cdk.declarative.components.requests.request_options import RequestOption
from cdk.declarative.model.context import BuildContext
from cdk.declarative.model.request_builder import RequestPart as Inject
from cdk.rest.auth.static import SecretLocation

_LOCATIONS: Mapping[Inject, SecretLocation] = {
    "header": "header",
    "request_parameter": "query",
    "body_data": "form",
    "body_json": "json",
}


def location_of(option: RequestOption, ctx: BuildContext) -> tuple[SecretLocation, tuple[str, ...]]:
    """Where `option` puts something, and under which names."""
    names = [option.field_name or ""] if option.field_path is None else option.field_path
    return _LOCATIONS[option.inject_into], tuple(ctx.expression(option, "field_name", name).text() for name in names)
