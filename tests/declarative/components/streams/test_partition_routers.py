"""What a stream is read once for."""

from typing import Any

import pytest

from cdk.base.errors import ManifestError
from cdk.base.values import Json
from cdk.testing import MockApi, read
from tests.declarative.manifests import CURSOR, ids, option, queries, run, source
from tests.declarative.reading.test_manifest_stream import at
from tests.declarative.reading.test_state_delegating_stream import stream


def listed(name: str, *values: Json, asks: bool = True) -> dict[str, Any]:
    asked = {"request_option": option(name)} if asks else {}
    return {"type": "ListPartitionRouter", "cursor_field": name, "values": list(values), **asked}


def parents(*configs: dict[str, Any]) -> dict[str, Any]:
    return {"type": "SubstreamPartitionRouter", "parent_stream_configs": list(configs)}


def parent(path: str = "/projects", key: str = "id", field: str = "pid", **parts: Any) -> dict[str, Any]:
    made = {"type": "ParentStreamConfig", "parent_key": key, "partition_field": field, "request_option": option(field)}
    return {**made, "stream": {**stream(path, None), "name": path.strip("/")}, **parts}


def rows(*records: Json) -> Json:
    return {"data": list(records)}


def api(*projects: Json, **others: Json) -> MockApi:
    made = MockApi()
    made.get("/items").returns(json=rows({"id": 1, "on": "2024-01-02"}))
    made.get("/projects").returns(json=rows(*projects))
    for name, answer in others.items():
        made.get(f"/{name}").returns(json=answer)
    return made


def asked(made: MockApi, router: Json, **parts: Any) -> list[dict[str, Any]]:
    """The parameters of each request for items."""
    assert run(made, partition_router=router, **parts).error is None
    return [dict(request.params) for request in made.requests if request.url.endswith("/items")]


SHOWN = {"request_parameters": {"q": "{{ stream_partition.q }}"}}


@pytest.mark.parametrize(
    "text", ["{{ stream_slice._partition.q }}", "{% if 1 %}{{ stream_slice._partition['q'] }}{% endif %}"]
)
def test_expressions_see_the_partition_under_its_inner_name(text: str) -> None:
    shown = {"request_parameters": {"p": text, "no": "{{ stream_slice._window }}"}}

    assert asked(api(), listed("q", "a", "b", asks=False), requester=shown) == [{"p": "a"}, {"p": "b"}]


def test_a_list_is_read_in_its_order() -> None:
    assert asked(api(), listed("q", "b", "a", 3)) == [{"q": "b"}, {"q": "a"}, {"q": "3"}]
    assert asked(api(), {**listed("q"), "values": "{{ ['x', config.region] }}"}) == [{"q": "x"}, {"q": "eu"}]


def test_a_value_that_comes_twice_is_read_once() -> None:
    assert asked(api(), listed("q", "a", "b", "a")) == [{"q": "a"}, {"q": "b"}]


def kept(values: Json, config: dict[str, Json]) -> list[Json]:
    """The values that stand in the state of a stream that is read once for each."""
    made = read(
        source(api(), partition_router={**listed("q"), "values": values}, stream={"incremental_sync": CURSOR}),
        "items",
        config=config,
    )
    assert made.error is None
    return [entry["partition"]["q"] for entry in made.states[-1].get("states", ())]


def test_values_of_an_expression_keep_their_types() -> None:
    assert kept("{{ config.ids }}", {"ids": [1, "1", 2.5, True]}) == [1, "1", 2.5, True]
    assert kept([1, "2", "1e3", "{{ config.ids[0] }}"], {"ids": [7]}) == ["1", "2", "1e3", "7"]


@pytest.mark.parametrize("config", [{"ids": []}, {"ids": ""}])
def test_a_config_without_values_leaves_nothing_to_read(config: dict[str, Json]) -> None:
    assert kept("{{ config['ids'] }}", config) == []


def test_a_config_whose_values_are_null_fails_the_stream_when_it_is_read() -> None:
    made = source(api(), partition_router={**listed("q"), "values": "{{ config['ids'] }}"})

    (offered,) = made.streams({"ids": None})
    found = read(made, "items", config={"ids": None})

    assert offered.name == "items"
    assert "values: found null, expected a list" in str(found.error)


def test_values_that_are_no_list_are_told() -> None:
    made = run(api(), partition_router={**listed("q"), "values": "{{ 5 }}"})

    assert isinstance(made.error, ManifestError)
    assert "values: found a number, expected a list" in str(made.error)


def test_values_that_are_zero_or_false_are_sent_and_empty_ones_are_not() -> None:
    made = {**listed("q"), "values": "{{ [0, false, ''] }}"}
    substream = parents(parent())

    assert asked(api(), made) == [{"q": "0"}, {"q": "False"}, {}]
    assert asked(api({"id": 0}, {"id": False}, {"id": ""}, {"id": 7}), substream) == [
        {"pid": "0"},
        {"pid": "False"},
        {},
        {"pid": "7"},
    ]


def test_several_routers_are_combined_the_last_varying_fastest() -> None:
    found = asked(api(), [listed("q", "a", "b"), listed("r", "1", "2")])

    assert found == [{"q": q, "r": r} for q in "ab" for r in "12"]


def test_each_record_of_a_parent_is_a_partition() -> None:
    assert asked(api({"id": 7}, {"id": 8}), parents(parent())) == [{"pid": "7"}, {"pid": "8"}]


@pytest.mark.parametrize("lacking", [{}, {"id": None}])
def test_a_parent_without_a_key_is_skipped(lacking: Json) -> None:
    assert asked(api(lacking, {"id": 8}), parents(parent())) == [{"pid": "8"}]


def test_a_key_may_lie_deep() -> None:
    found = asked(api({"a": {"b": 7}}, {"a": None}, {"a": 5}), parents(parent(key="a/b")))

    assert found == [{"pid": "7"}]


def test_parents_come_one_after_the_other() -> None:
    router = parents(parent(), parent("/teams", field="team"))

    assert asked(api({"id": 7}, teams=rows({"id": 9})), router) == [{"pid": "7"}, {"team": "9"}]


def test_parents_with_one_field_and_one_place_in_the_request_put_their_value_there_once() -> None:
    router = parents(parent(), parent("/teams"))

    assert asked(api({"id": 7}, teams=rows({"id": 9})), router) == [{"pid": "7"}, {"pid": "9"}]


def test_a_filter_sees_no_token_on_any_page() -> None:
    made = MockApi()
    made.get("/items", {"page": 1}).returns(json=rows({"id": 2}))
    made.get("/items", {"page": 2}).returns(json=rows())
    made.get("/items").returns(json=rows({"id": 1}))
    strategy = {"type": "PageIncrement", "page_size": 1}
    paginator = {"type": "DefaultPaginator", "pagination_strategy": strategy, "page_token_option": option("page")}
    extractor = {"type": "DpathExtractor", "field_path": ["data"]}
    selector = {
        "extractor": extractor,
        "record_filter": {"type": "RecordFilter", "condition": "{{ not next_page_token }}"},
    }

    assert ids(run(made, paginator=paginator, record_selector=selector)) == [1, 2]


def test_fields_of_the_parent_are_seen_by_expressions() -> None:
    shown = {"request_parameters": {"n": "{{ stream_slice.extra_fields['name'] }}", "o": "{{ stream_partition.pid }}"}}
    router = parents({**parent(extra_fields=[["name"], ["owner", "id"]]), "request_option": None})

    found = asked(api({"id": 7, "name": "x", "owner": {"id": 3}}), router, requester=shown)

    assert found == [{"n": "x", "o": "7"}]


def test_grandparents_lie_in_the_partition_of_the_parent() -> None:
    made = api({"id": 7}, teams=rows({"id": "a"}, {"id": "b"}))
    boards = {**stream("/projects", parents(parent("/teams", field="team"))), "name": "projects"}

    run_of = run(made, partition_router=parents({**parent(), "stream": boards}), stream={"incremental_sync": CURSOR})

    assert run_of.error is None
    assert [entry["partition"] for entry in run_of.states[-1]["states"]] == [
        {"pid": 7, "parent_slice": {"team": "a", "parent_slice": {}}},
        {"pid": 7, "parent_slice": {"team": "b", "parent_slice": {}}},
    ]


def grouped(inner: Json, size: int = 2, **parts: Any) -> dict[str, Any]:
    return {"type": "GroupingPartitionRouter", "group_size": size, "underlying_partition_router": inner, **parts}


def test_groups_become_lists_and_say_nothing_by_themselves() -> None:
    shown = {"request_parameters": {"q": "{{ stream_partition.q | join(',') }}"}}

    assert asked(api(), grouped(listed("q", "a", "b", "c")), requester=shown) == [{"q": "a,b"}, {"q": "c"}]


def test_what_a_group_does_not_send_is_named_with_what_does() -> None:
    parts: dict[str, Any] = {"requester": {"request_parameters": {"q": "{{ stream_partition.q | join(',') }}"}}}

    made = run(api(), partition_router=grouped(listed("q", "a", "b")), **parts)
    good = run(api(), partition_router=grouped(listed("q", "a", "b", asks=False)), **parts)

    (text,) = [line for line in made.warnings if "GroupingPartitionRouter" in line]
    assert "its `request_option` is not sent" in text
    assert """`request_parameters: {id: "{{ stream_partition['id'] | join(',') }}"}`""" in text
    assert good.warnings == []


@pytest.mark.parametrize(("deduplicate", "groups"), [(True, ["a,b", "c"]), (False, ["a,b", "a,c"])])
def test_a_value_of_an_earlier_group_is_left_out(deduplicate: bool, groups: list[str]) -> None:  # noqa: FBT001
    shown = {"request_parameters": {"q": "{{ stream_partition.q | join(',') }}"}}
    router = grouped(listed("q", "a", "b", "a", "c", asks=False), deduplicate=deduplicate)

    assert [query["q"] for query in asked(api(), router, requester=shown)] == groups


def test_groups_keep_the_fields_of_their_parents() -> None:
    shown = {"request_parameters": {"n": "{{ stream_slice.extra_fields['name'] | join(',') }}"}}
    router = grouped(parents(parent(extra_fields=[["name"]])))

    found = asked(api({"id": 1, "name": "x"}, {"id": 2, "name": "y"}, {"id": 3}), router, requester=shown)

    assert [query["n"] for query in found] == ["x,y", "None"]


def test_groups_share_one_cursor_so_one_parent_more_reads_nothing_again() -> None:
    projects = [{"id": n} for n in range(5)]
    child = {"incremental_sync": CURSOR}
    made, again = api(*projects[1:]), api(*projects)
    made.get("/items").returns(json=rows({"id": 1, "on": "2024-01-05"}))

    first = run(made, partition_router=grouped(parents(parent())), stream=child)
    asked(again, grouped(parents(parent())), stream=child, state=first.state_messages)

    assert first.states[-1] == {
        "use_global_cursor": True,
        "state": {"on": "2024-01-05"},
        "lookback_window": 1,
        "parent_state": {},
    }
    items = [request.params["since"] for request in again.requests if request.url.endswith("/items")]
    assert items == ["2024-01-04"] * 3  # the second that the read took lies in the day before


@pytest.mark.parametrize(
    ("router", "told"),
    [
        (listed("q", "a"), False),
        (parents(parent()), True),
        ([parents(parent()), listed("q", "a")], False),
        ([parents(parent())], False),
    ],
)
def test_a_state_tells_of_parents_only_where_there_are_some_to_follow(router: Json, told: bool) -> None:  # noqa: FBT001
    made = run(api({"id": 7}), partition_router=router, stream={"incremental_sync": CURSOR})

    assert ("parent_state" in made.states[-1]) is told


def test_a_state_of_groups_that_each_had_a_cursor_starts_from_the_one_they_shared() -> None:
    old = [{"partition": {"pid": [7, 8]}, "cursor": {"on": "2024-01-09"}}]
    state = at({"use_global_cursor": False, "states": old, "state": {"on": "2024-01-05"}, "lookback_window": 0})
    made = api({"id": 6}, {"id": 7}, {"id": 8})

    run_of = run(made, partition_router=grouped(parents(parent())), stream={"incremental_sync": CURSOR}, state=state)

    assert [query["since"] for query in queries(made)[1:]] == ["2024-01-05"] * 2
    assert "states" not in run_of.states[-1]


def test_groups_know_the_slices_of_their_parents() -> None:
    boards = {**stream("/projects", parents(parent("/teams", field="team"))), "name": "projects"}
    shown = {"request_parameters": {"t": "{{ stream_partition.parent_slice | map(attribute='team') | join(',') }}"}}

    found = asked(
        api({"id": 7}, teams=rows({"id": "a"}, {"id": "b"})),
        grouped(parents({**parent(), "stream": boards}), deduplicate=False),
        requester=shown,
    )

    assert found == [{"t": "a,b"}]


def test_a_union_reads_each_value_once() -> None:
    union = {
        "type": "UnionPartitionRouter",
        "partition_field": "q",
        "partition_routers": [listed("q", "1", "2"), listed("other", "2", "3"), parents(parent(key="code"))],
    }

    found = asked(api({"code": "3"}, {"code": "4"}), union, requester=SHOWN)

    assert found == [{"q": "1"}, {"q": "2"}, {"q": "3"}, {"q": "4"}]


FOLLOWED = {**CURSOR, "cursor_field": "u"}
CHILD = {"incremental_sync": CURSOR}


def following(**shared: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The router and the stream of children that follow their parent."""
    config = parent(incremental_dependency=True)
    config["stream"] = {**config["stream"], "incremental_sync": FOLLOWED}
    return parents(config), {"incremental_sync": {**CURSOR, **shared}}


@pytest.mark.parametrize("shared", [{}, {"global_substream_cursor": True}])
def test_only_children_of_parents_that_changed_are_read_again(shared: dict[str, Any]) -> None:
    router, child = following(**shared)
    first_api, second_api = api({"id": 7, "u": "2024-01-05"}, {"id": 8, "u": "2024-01-06"}), api()
    second_api.get("/projects", {"since": "2024-01-06"}).returns(json=rows({"id": 8, "u": "2024-01-08"}))

    first = run(first_api, partition_router=router, stream=child)
    found = asked(second_api, router, stream=child, state=first.state_messages)

    assert first.states[-1]["use_global_cursor"] is bool(shared)
    assert first.states[-1]["parent_state"] == {"projects": {"u": "2024-01-06"}}
    assert [query["pid"] for query in found] == ["8"]


def test_children_that_no_read_has_listed_still_start_from_the_cursor_that_all_shared() -> None:
    router, child = following()
    known = {"projects": {"u": "2024-01-05"}}
    state = {"use_global_cursor": True, "state": {"on": "2024-01-05"}, "parent_state": known}
    first = run(api({"id": 8, "u": "2024-01-06"}), partition_router=router, stream=child, state=at(state))

    found = asked(api({"id": 7, "u": "2024-01-07"}), router, stream=child, state=first.state_messages)

    assert [query["since"] for query in found] == ["2024-01-04"]  # the second that the read took lies in the day before


def test_a_parent_advances_only_when_its_children_are_read() -> None:
    router, child = following()
    made = api({"id": 7, "u": "2024-01-05"}, {"id": 8, "u": "2024-01-06"})
    made.get("/items", {"pid": "8"}).returns(status=400, json={})

    cut = run(made, partition_router=router, stream=child)
    again = api({"id": 7, "u": "2024-01-05"}, {"id": 8, "u": "2024-01-06"})
    found = asked(again, router, stream=child, state=cut.state_messages)

    assert cut.error is not None
    assert (cut.states[-1].get("parent_state") or {}).get("projects", {}) in ({}, {"u": "2024-01-01"})
    assert "8" in [query["pid"] for query in found]


def test_parents_that_are_not_followed_are_read_from_their_start() -> None:
    made = api({"id": 7, "u": "2024-01-05"})
    config = parent()
    config["stream"] = {**config["stream"], "incremental_sync": FOLLOWED}
    state = {
        "states": [{"partition": {"pid": 7, "parent_slice": {}}, "cursor": {"on": "2024-01-03"}}],
        "parent_state": {"projects": {"u": "2024-01-20"}},
    }

    run_of = run(made, partition_router=parents(config), stream=CHILD, state=at(state))

    assert ids(run_of) == [1]
    assert queries(made)[0]["since"] == "2024-01-01"
    assert queries(made)[1]["since"] == "2024-01-03"


@pytest.mark.parametrize(
    ("projects", "key", "words"),
    [
        ([{"id": 7}, {"id": 8}], "idd", "2 of 2 records of its parent 'projects' have no value at parent_key 'idd'"),
        ([{"id": 7}, {"id": 8}], "idd", "no 'idd' in the first of them, whose fields are 'id' (is it 'id'?)"),
        ([{"id": 7}, {"key": 8}], "id", "1 of 2 records"),
        ([{"id": None}], "id", "1 of 1 records"),
    ],
)
def test_records_of_a_parent_without_the_key_are_warned_of_once(projects: list[Json], key: str, words: str) -> None:
    result = run(api(*projects), partition_router=parents(parent(key=key)))

    assert result.error is None
    (warning,) = result.warnings
    assert warning.startswith("items: ")
    assert words in warning


@pytest.mark.parametrize("projects", [[], [{"id": 7}, {"id": None}]])
def test_a_parent_without_records_or_with_some_null_is_not_warned_of(projects: list[Json]) -> None:
    assert run(api(*projects), partition_router=parents(parent())).warnings == []


@pytest.mark.parametrize(
    ("values", "found"),
    [("{{ config['idz'] }}", "no values, so nothing is read"), (["{{ config['idz'] }}", "7"], "an empty value")],
)
def test_a_misspelt_field_of_the_config_is_named_with_the_nearest(
    values: Json, found: str, caplog: pytest.LogCaptureFixture
) -> None:
    router = {**listed("id"), "values": values}

    list(source(api(), partition_router=router).streams({"ids": ["1"]})[0].partitions())

    missing = "it reads `config.idz`, which is missing; did you mean 'ids'?"
    assert caplog.messages == [f"items: ListPartitionRouter.values: found {found}: {missing}"]
