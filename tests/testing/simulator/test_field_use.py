"""Connectors that read fields of which no schema says anything, and add fields of their own; in both of their forms."""

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdk.base.values import Json, Record
from cdk.declarative.manifest import Manifest
from cdk.declarative.source import ManifestSource
from cdk.rest import Offset, PageNumber, Paginator, RestSource, resource
from cdk.streams.source import Source
from cdk.testing import Simulator, World
from cdk.testing.simulator.field_use import passing_choices
from tests.testing.simulator.described import URL
from tests.testing.simulator.test_simulator import counted, run

ADDED = {"made_by": "us", "shop": "{config.shop}"}


@dataclass(frozen=True)
class Selective:
    """A connector of projects, of which a filter keeps some, and of tasks, each of which has a field of its project.

    form: what it is written in. kept: the values of `state` that the filter keeps. filter_declared, added_declared:
    whether the schema has the field of the filter, and those that the connector adds.
    """

    form: str
    kept: list[Json]
    filter_declared: bool
    added_declared: bool

    def source(self) -> Source:
        return self._resources() if self.form == "resources" else self._manifest()

    def read_of(self, name: str, held: Record) -> Record | None:
        """What the connector makes of a record of the API, but for what it takes from the project."""
        if name == "projects" and held.get("state") not in self.kept:
            return None
        return {**held, "made_by": "us", "shop": "simulated-shop"}

    def schema(self, *names: str) -> dict[str, Json]:
        state = {"state": {"type": ["null", "boolean", "string", "integer"]}} if self.filter_declared else {}
        added = [*names, *ADDED] if self.added_declared else []
        return {"type": "object", "properties": {"id": {}, **state, **{name: {"type": "string"} for name in added}}}

    def _resources(self) -> RestSource:
        allowed = self.kept[0] if len(self.kept) == 1 else self.kept
        paginator: Paginator = PageNumber(more=["more"]) if self.added_declared else Offset(3)
        projects = resource(
            "projects",
            "/projects",
            record_filter={"state": allowed},
            add_fields=ADDED,
            schema=self.schema(),
            paginator=paginator,
        )
        tasks = resource(
            "tasks",
            "/projects/{projects.key}/tasks",
            add_fields={**ADDED, "key": "{projects.key}", "project": "{projects.title}"},
            schema=self.schema("key", "project"),
        )
        return RestSource(URL, projects, tasks, records_path="data", primary_key="id")

    def _manifest(self) -> ManifestSource:
        literals = ", ".join(repr(value).lower() if value in {True, False} else repr(value) for value in self.kept)
        projects = self._stream("projects", "projects", self.schema(), {})
        selector = projects["retriever"]["record_selector"]
        selector["record_filter"] = {"type": "RecordFilter", "condition": f"{{{{ record['state'] in [{literals}] }}}}"}
        parent = {
            "type": "ParentStreamConfig",
            "stream": projects,
            "parent_key": "key",
            "partition_field": "key",
            "extra_fields": [["title"]],
        }
        path = "projects/{{ stream_partition.key }}/tasks"
        taken = {"key": "{{ stream_partition.key }}", "project": "{{ stream_slice.extra_fields['title'] }}"}
        tasks = self._stream("tasks", path, self.schema("key", "project"), taken)
        router = {"type": "SubstreamPartitionRouter", "parent_stream_configs": [parent]}
        tasks["retriever"]["partition_router"] = router
        properties = {"type": "object", "required": ["shop"], "properties": {"shop": {"type": "string"}}}
        return ManifestSource(
            Manifest(
                {
                    "version": "6.0.0",
                    "type": "DeclarativeSource",
                    "check": {"type": "CheckStream", "stream_names": ["projects"]},
                    "spec": {"type": "Spec", "connection_specification": properties},
                    "streams": [projects, tasks],
                }
            )
        )

    def _stream(self, name: str, path: str, schema: Json, taken: dict[str, str]) -> dict[str, Any]:
        added = {"made_by": "us", "shop": "{{ config['shop'] }}", **taken}
        fields = [{"path": [field], "value": value} for field, value in added.items()]
        return {
            "type": "DeclarativeStream",
            "name": name,
            "primary_key": "id",
            "retriever": {
                "type": "SimpleRetriever",
                "requester": {"type": "HttpRequester", "url_base": URL, "path": path},
                "record_selector": {
                    "type": "RecordSelector",
                    "extractor": {"type": "DpathExtractor", "field_path": ["data"]},
                },
            },
            "transformations": [{"type": "AddFields", "fields": fields}],
            "schema_loader": {"type": "InlineSchemaLoader", "schema": schema},
        }


selective = st.builds(
    Selective,
    st.sampled_from(["resources", "manifest"]),
    st.sampled_from([[False], [True], ["open"], ["new", "open"], [7]]),
    st.booleans(),
    st.booleans(),
)


@settings(max_examples=30)
@given(selective, st.integers(1, 12))
def test_records_have_what_the_connector_reads_and_nothing_that_it_adds(world: Selective, count: int) -> None:
    source = world.source()
    simulator = Simulator(source, world=World(records=count))
    assert simulator.missing == {}

    projects, tasks = run(simulator, source, "projects"), run(simulator, source, "tasks")

    held = simulator.records("projects")
    assert {*ADDED}.isdisjoint(name for row in (*held, *simulator.records("tasks")) for name in row)
    expected = [made for row in held if (made := world.read_of("projects", row)) is not None]
    assert counted(projects.records) == counted(expected)
    assert len(expected) > 0
    # Where the filter wants a boolean, what it is to drop may be kept by chance.
    assert len(expected) < len(held) or count < 3 or world.kept[0] in {True, False}
    taken = {(row.pop("key"), row.pop("project")) for row in map(dict, tasks.records)}
    assert taken <= {(row["key"], row["title"]) for row in projects.records}
    own = [{name: row[name] for name in row.keys() - {"key", "project"}} for row in tasks.records]
    assert counted(own) == counted([world.read_of("tasks", row) or {} for row in simulator.records("tasks")])
    assert projects.schema_errors == [] if world.filter_declared and world.added_declared else True


def test_two_streams_that_keep_other_records_of_one_place_both_have_some() -> None:
    kinds = [
        resource(kind, "/things", records_path="data", primary_key="id", record_filter={"kind": kind, part: True})
        for kind, part in (("bolts", "steel"), ("nuts", "brass"))
    ]
    source = RestSource(URL, *kinds)
    simulator = Simulator(source, world=World(records=10))

    bolts, nuts = run(simulator, source, "bolts"), run(simulator, source, "nuts")

    assert {row["kind"] for row in bolts.records} == {"bolts"}
    assert {row["kind"] for row in nuts.records} == {"nuts"}
    assert simulator.records("bolts") == simulator.records("nuts")


@pytest.mark.parametrize(
    ("condition", "choices"),
    [
        ("{{ record.state == 'open' }}", {("state",): ["open"]}),
        ("{{ record.meta.size > 4.0 and record['ok'] }}", {("meta", "size"): [5.0], ("ok",): [True]}),
        ("{{ record.get('archived') is not none and not record.archived }}", {("archived",): [False]}),
        ("{{ not record.hidden }}", {("hidden",): [False]}),
        ("{{ not record.hidden and 'b' not in record.columns }}", {("hidden",): [False]}),
        ("{{ record.state == config['state'] }}", {("state",): ["ready"]}),
        ("{{ record.id >= 0 }}", {}),
        ("{{ record.day >= stream_interval.start_time }}", {}),
        ("{{ '' in record.columns }}", {}),
        ("{{ nothing( }}", {}),
    ],
)
def test_values_that_pass_a_condition_are_those_that_it_compares_with(condition: str, choices: Json) -> None:
    schema: Json = {"properties": {"columns": {"type": "array", "items": {"type": "string"}}}}
    samples: list[Json] = [{"id": number, "columns": ["a"]} for number in range(3)]

    assert passing_choices(condition, samples, schema, {"state": "ready"}) == {
        path: tuple(values) for path, values in choices.items()
    }
