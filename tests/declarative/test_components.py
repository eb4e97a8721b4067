"""Every component says what it is, and builds: from its example, from its least YAML, and from its fullest."""

import inspect
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from msgspec import Struct

from cdk.base.errors import ManifestError
from cdk.base.values import Json
from cdk.declarative.components import register
from cdk.declarative.model.component import Component
from cdk.declarative.model.component_docs import component_docs
from cdk.declarative.model.context import BuildContext, Runtime
from cdk.declarative.model.field_shapes import (
    AnyOf,
    Anything,
    Changed,
    Choice,
    Either,
    FieldShape,
    ListOf,
    MapOf,
    Part,
    Scalar,
    Shape,
    fields_of,
    kind_of,
    open_to_more,
)
from cdk.declarative.model.stream_plug_points import StreamParts
from cdk.declarative.syntax.parameters import propagate
from cdk.declarative.syntax.validation import validated
from cdk.rest import JsonDocument
from cdk.testing import MockApi

register()
NAMES = sorted(Component.registry)
CUSTOM = [name for name in NAMES if "class_name" in fields_of(Component.registry[name])]
OURS = [name for name in NAMES if name not in CUSTOM]

NOW = datetime(2024, 6, 1, tzinfo=UTC)
CONFIG: dict[str, Json] = {
    "account": "1",
    "auth_type": "token",
    "credentials": {"auth_type": "token"},
    "start_date": "2024-01-01T00:00:00Z",
    "tables": [{"name": "a"}],
    "tokens": "one,two",
    "chosen": "a",
}

CURSOR = {
    "type": "DatetimeBasedCursor",
    "cursor_field": "at",
    "datetime_format": "%Y-%m-%d",
    "start_datetime": "2024-01-01",
    "token_delimiter": ",",
    "step": "P30D",
    "cursor_granularity": "P1D",
}
PAGINATOR = {
    "type": "DefaultPaginator",
    "pagination_strategy": {"type": "PageIncrement", "page_size": 100},
    "page_size_option": {"inject_into": "request_parameter", "field_name": "limit"},
}

# Fields of which only one may be there, or that only go with some of the others.
APART: dict[str, set[str]] = {
    "ApiKeyAuthenticator": {"header"},
    "HttpRequester": {"fetch_properties_from_endpoint"},
    "RequestOption": {"field_path"},
    # Each wants a paginator or a cursor of its own kind; they are built by themselves.
    "SimpleRetriever": {"page_size_reduction", "pagination_reset", "request_window_splitting"},
}
# Texts that are more than texts, by the name of the field.
TEXTS: dict[str, str] = {
    "authenticator_selection_path": "chosen",
    "class_name": "components.Thing",
    "condition": "{{ 1 == 1 }}",
    "datetime": "2024-01-01",
    "datetime_format": "%Y-%m-%d",
    "encoding": "utf-8",
    "end_datetime": "2024-02-01",
    "max_datetime": "2024-03-01",
    "min_datetime": "2023-01-01",
    "start_datetime": "2024-01-01",
    "token_delimiter": ",",
    "url": "https://api.example.com/a",
    "url_base": "https://api.example.com",
}
DURATIONS = {
    "api_retention_period",
    "cursor_granularity",
    "expiration_duration",
    "interval",
    "lookback_window",
    "max_wait_time",
    "min_split_window",
    "period",
    "step",
}
VALUES: dict[tuple[str, str], Json] = {
    **{("AsyncJobStatusMap", name): [name] for name in ("running", "completed", "failed", "timeout", "skipped")},
    ("DatetimeBasedCursor", "clamping"): {"target": "DAY"},
    ("DeclarativeStream", "state_migrations"): [],
}


def test_a_component_is_known_by_its_class_before_its_module_is_imported() -> None:
    program = """
import sys
from cdk.declarative.components import register
from cdk.declarative.model.component import Component

register()
module = "cdk.declarative.components.auth.jwt"
before = module in sys.modules
names = [module, Component.registry["JwtAuthenticator"].__module__]
try:
    Component.registry["JwtHeaders"]
except KeyError:
    names.append("no component")
print(before, module in sys.modules, *names[1:], "cdk.declarative.components.auth.oauth" in sys.modules)
print(len(Component.registry))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines() == [
        "False True cdk.declarative.components.auth.jwt no component False",
        str(len(NAMES)),
    ]


@pytest.mark.parametrize("name", NAMES)
def test_a_component_says_what_it_is_and_shows_an_example(name: str) -> None:
    said = component_docs(Component.registry[name])

    assert said.text
    assert yaml.safe_load(said.example)["type"] == name


@pytest.mark.parametrize("name", NAMES)
def test_every_field_is_described(name: str) -> None:
    assert [key for key, text in component_docs(Component.registry[name]).fields.items() if not text] == []


@pytest.mark.parametrize("name", OURS)
def test_the_example_builds(name: str) -> None:
    build(_referred(yaml.safe_load(component_docs(Component.registry[name]).example)))


@pytest.mark.parametrize("name", OURS)
def test_the_least_yaml_builds(name: str) -> None:
    build(sample(Component.registry[name], full=False))


@pytest.mark.parametrize("name", OURS)
def test_the_fullest_yaml_builds(name: str) -> None:
    build(sample(Component.registry[name], full=True))


@pytest.mark.parametrize("name", CUSTOM)
def test_code_of_its_own_is_refused_until_it_is_trusted(name: str) -> None:
    value = yaml.safe_load(component_docs(Component.registry[name]).example)

    with pytest.raises(ManifestError) as refused:
        build(value)

    assert value["class_name"] in str(refused.value)


def _referred(value: Json) -> Json:
    """An example with a stream where it refers to one."""
    if isinstance(value, list):
        return [_referred(part) for part in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        return sample(Component.registry["DeclarativeStream"], full=False)
    return {name: _referred(part) for name, part in value.items()}


def build(value: dict[str, Json]) -> None:
    """Validate a component as a manifest does, and build it with what its family gives."""
    component = _component(value)
    made = getattr(component, "build", None) or getattr(component, "streams", None)
    if made is None or not callable(made):
        return
    parameters = inspect.signature(made).parameters.values()
    variable = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    arguments = {
        parameter.name: _given(parameter, component)
        for parameter in parameters
        if parameter.default is parameter.empty and parameter.kind not in variable
    }
    result = made(**arguments)
    if isinstance(result, Iterator):
        list(result)


def _context() -> BuildContext:
    return BuildContext(CONFIG, Runtime(transport=MockApi(), clock=lambda: NOW, folder=Path(__file__).parent))


def _component(value: dict[str, Json]) -> Json:
    return validated(Component.registry[value["type"]], propagate(value))


def _given(wanted: inspect.Parameter, component: Component) -> Json:  # noqa: PLR0911 - one for each thing there is
    if wanted.annotation is str:
        return "things"
    match wanted.name:
        case "ctx":
            return _context()
        case "decoder":
            return JsonDocument()
        case "as_yaml":
            return False
        case "incremental":
            return _component(CURSOR).build(_context())
        case "pages":
            return _component(PAGINATOR).build(_context(), JsonDocument())
        case "schema":
            return {"type": "object", "properties": {}}
        case "parts":
            return StreamParts(name="things")
        case "stream":
            router = {"type": "ListPartitionRouter", "cursor_field": "a", "values": ["x"]}
            stream = sample(Component.registry["DeclarativeStream"], full=False)
            stream["retriever"]["partition_router"] = router
            return _component(stream)
        case name:
            raise AssertionError(f"{kind_of(type(component))}.build takes {name!r}, which nothing gives here")


def sample(model: type[Struct], *, full: bool, depth: int = 0) -> dict[str, Json]:
    """YAML for a model: with its required fields, or with all that may stand together."""
    kind = kind_of(model)
    made: dict[str, Json] = {"type": kind} if issubclass(model, Component) else {}
    for key, field in fields_of(model).items():
        if isinstance(field.shape, Anything) and not field.required:
            continue
        if key not in {"type", "$parameters"} and (field.required or (full and key not in APART.get(kind, ()))):
            made[key] = _value(kind, field, full=full and depth < 1, depth=depth)
    for key in LEAST.get(kind, ()):
        if key == "header" and "inject_into" in made:
            continue  # either will do
        made.setdefault(key, _value(kind, fields_of(model)[key], full=False, depth=depth))
    return made


# What must be there besides the required fields: one of several.
LEAST: dict[str, tuple[str, ...]] = {
    "ApiKeyAuthenticator": ("header",),
    "DeclarativeSource": ("streams",),
    "DeclarativeStream": ("name",),
    "HttpRequester": ("url",),
    "OAuthAuthenticator": ("token_refresh_endpoint", "client_id", "client_secret", "refresh_token"),
    "RequestOption": ("field_name",),
}


def _size(model: type[Component]) -> tuple[int, int, str]:
    """How much a component needs: other components first."""
    shapes = [field.shape for field in fields_of(model).values() if field.required]
    return sum(isinstance(shape, Part | AnyOf) for shape in shapes), len(shapes), kind_of(model)


def _value(kind: str, field: FieldShape, *, full: bool, depth: int) -> Json:
    if (kind, field.key) in VALUES:
        return VALUES[kind, field.key]
    return _made(field.shape, field.key, full=full, depth=depth + 1)


def _made(shape: Shape, key: str, *, full: bool, depth: int) -> Json:  # noqa: PLR0911 - one for each shape there is
    match shape:
        case Scalar(type=kind, bounds=bounds):
            limits: dict[str, Json] = dict(bounds)
            least = limits.get("minimum", limits.get("exclusiveMinimum", 0) + 1)
            text = "P1D" if key in DURATIONS else TEXTS.get(key, "x")
            return {str: text, int: least, float: float(least), bool: True}[kind]
        case Choice(values=values):
            return values[0]
        case ListOf(item=item, least=least):
            return [_made(item, key, full=full, depth=depth)] * max(least, 1)
        case Changed(item=item):
            return _made(item, key, full=full, depth=depth)
        case MapOf(item=item):
            return {"a": _made(item, key, full=full, depth=depth)}
        case Part(model=model):
            return sample(model, full=full, depth=depth)
        case AnyOf(kind=family):
            members = family.members()
            implied = family.implied.type if family.implied is not None and family.implied.type in members else None
            plain = (name for name in members if not open_to_more(members[name]))
            return sample(members[implied or min(plain, key=lambda name: _size(members[name]))], full=full, depth=depth)
        case Either(options=options):
            return _made(options[0], key, full=full, depth=depth)
        case _:
            return {}
