"""The JSON Schema of pipeline files: what loads validates, and what does not load does not."""

import re
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from cdk.authoring.pipeline_schema import pipeline_schema, split_docstring
from cdk.base.errors import ConfigError
from cdk.base.values import Json
from cdk.sources.environment import PartialEnvironment
from cdk.sync.settings.pipeline_file import Pipeline

DOCS = Path(__file__).parents[2] / "docs"
LEAST = {"name": "shop", "source": {"connector": "shop"}, "target": {"path": "tables"}}


@pytest.fixture(scope="module")
def schema() -> Draft202012Validator:
    made = pipeline_schema()
    Draft202012Validator.check_schema(made)
    return Draft202012Validator(made)


def loads(value: Json, tmp_path: Path) -> bool:
    file = tmp_path / "pipeline.yaml"
    file.write_text(yaml.safe_dump(value))
    try:
        Pipeline.load(file, lambda *_: PartialEnvironment({}))
    except ConfigError:
        return False
    return True


@pytest.mark.parametrize(
    ("more", "valid"),
    [
        ({}, True),
        ({"streams": ["a", "b"], "checkpoint_interval": "10m", "concurrency": 4}, True),
        ({"streams": {"a": None, "b": {"remove_stale": True, "primary_key": ["x", "y"]}}}, True),
        ({"streams": {"a": {"remove_stale_metadata": {"removal": "hard"}, "schema": "freeze"}}}, True),
        ({"streams": {"a": {"follow_source": {"max_validator_age": "2d"}, "history": True}}}, True),
        ({"spark": {"conf": {"spark.a": 1, "spark.b": True}}, "state": {"enabled": False}}, True),
        ({"concurrency": "${SLOTS}"}, False),
        ({"concurrency": 0}, False),
        ({"conurrency": 5}, False),
        ({"streams": {"a": {"write_mode": "apend"}}}, False),
        ({"source": {"connector": "a", "manifest": "b"}}, False),
        ({"source": {}}, False),
        ({"streams": {"a": {"remove_stale": "yes"}}}, False),
        ({"skip_redundant_runs": {"settle": 5}}, False),
    ],
)
def test_the_schema_and_the_loader_agree(
    more: Json, schema: Draft202012Validator, tmp_path: Path, *, valid: bool
) -> None:
    value = {**LEAST, **more}

    assert loads(value, tmp_path) is valid
    # What is in the environment only the loader knows.
    assert schema.is_valid(value) is (valid or more == {"concurrency": "${SLOTS}"})


def test_the_second_name_of_a_pipeline_stands_for_the_first(schema: Draft202012Validator) -> None:
    second = {"pipeline_name" if key == "name" else key: value for key, value in LEAST.items()}

    assert schema.is_valid(second)
    assert not schema.is_valid({key: value for key, value in LEAST.items() if key != "name"})


def test_every_pipeline_of_the_docs_that_loads_validates(schema: Draft202012Validator, tmp_path: Path) -> None:
    found = 0
    for page in DOCS.rglob("*.md"):
        for block in re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL):
            value = yaml.safe_load(block)
            if isinstance(value, dict) and {"source", "target"} <= value.keys() and loads(value, tmp_path):
                found += 1
                assert [error.message for error in schema.iter_errors(value)] == [], page.name

    assert found >= 10


def test_fields_have_the_words_of_the_docstring() -> None:
    options = pipeline_schema()["$defs"]["StreamOptions"]["properties"]

    assert options["deletes"]["description"].startswith("whether a row that says it is deleted stays")
    assert split_docstring("The whole. one, other: both. third: alone.", {"one": 1, "other": 2, "third": 3}) == (
        "The whole.",
        {"one": "both.", "other": "both.", "third": "alone."},
    )
