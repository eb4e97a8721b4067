import hashlib
from collections.abc import Callable
from typing import cast

import pytest

from cdk.base.errors import ManifestError
from cdk.base.values import Json
from cdk.declarative.components import register
from cdk.declarative.components.custom import CustomComponent, CustomConfigTransformation, CustomValidationStrategy
from cdk.declarative.model.component import Component
from cdk.declarative.model.context import BuildContext, Runtime
from cdk.declarative.model.stream_plug_points import StreamParts
from cdk.declarative.syntax.validation import validated
from cdk.rest import JsonDocument
from cdk.sources.manifests import airbyte_code

register()

KINDS = sorted(name for name, kind in Component.registry.items() if issubclass(kind, CustomComponent))
MORE: dict[str, tuple[Json, ...]] = {
    "CustomRecordExtractor": (JsonDocument(),),
    "CustomPaginationStrategy": (JsonDocument(),),
    "CustomRetriever": (StreamParts(),),
    "CustomSchemaNormalization": ({},),
    "CustomStateMigration": (None,),
}
CODE = """
class Upper:
    def transform(self, config):
        config["name"] = config["name"].upper()

class Short:
    def __init__(self, limit):
        self.limit = limit

    def validate(self, value):
        if len(value) > self.limit:
            raise ValueError("too long")
"""


def context(*, trusted: bool) -> BuildContext:
    sums = {"sha256": hashlib.sha256(CODE.encode()).hexdigest()}
    config: Json = {"__injected_components_py": CODE, "__injected_components_py_checksums": sums}
    return BuildContext(config, Runtime(custom=airbyte_code(allowed=trusted)), "items")


def test_there_is_one_for_each_family_that_existing_manifests_extend() -> None:
    assert len(KINDS) == 17


@pytest.mark.parametrize("kind", KINDS)
def test_none_is_built_without_trust(kind: str) -> None:
    component = validated(Component.registry[kind], {"type": kind, "class_name": "components.Upper"})
    build = cast("Callable[..., Json]", component.build)  # type: ignore[attr-defined] # each family has its own

    with pytest.raises(ManifestError, match=rf"items: {kind}.class_name: components.Upper .*--allow-custom-code"):
        build(context(trusted=False), *MORE.get(kind, ()))


def test_the_fields_of_the_class_are_kept_as_they_are_written() -> None:
    made = validated(CustomConfigTransformation, {"class_name": "components.Upper", "any": {"thing": ["{{ x }}"]}})

    assert made.further_fields == {"any": {"thing": ["{{ x }}"]}}


def test_a_config_is_changed_in_place() -> None:
    config: dict[str, Json] = {"name": "a"}
    made = validated(CustomConfigTransformation, {"class_name": "components.Upper"})

    made.build(context(trusted=True))(config)

    assert config == {"name": "A"}


def test_a_value_is_refused_with_the_class_s_own_words() -> None:
    made = validated(CustomValidationStrategy, {"class_name": "components.Short", "limit": 2})
    validate = made.build(context(trusted=True))

    validate("ab")
    with pytest.raises(ValueError, match="too long"):
        validate("abc")
