import pytest

from cdk.base.values import Json
from cdk.declarative.components.records.filters import RecordFilter
from cdk.declarative.model.context import BuildContext, Runtime
from cdk.declarative.syntax.validation import validated


def kept(condition: str) -> list[dict[str, Json]]:
    component = validated(RecordFilter, {"type": "RecordFilter", "condition": condition, "$parameters": {"p": 1}})
    select = component.build(BuildContext({"m": 2}, Runtime()))
    records: list[dict[str, Json]] = [{"a": 1}, {"a": 2}, {"a": 3}, {}]
    return select(records, {"stream_slice": {"k": "v"}, "next_page_token": None})


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("{{ record.a > 1 }}", [{"a": 2}, {"a": 3}]),
        ("{{ record.a == config.m }}", [{"a": 2}]),
        ("{{ record['a'] }}", [{"a": 1}, {"a": 2}, {"a": 3}]),
        ("{{ record.a in [1, 3] }}", [{"a": 1}, {"a": 3}]),
        ("{{ record.x.y }}", []),
        ("{{ next_page_token }}", []),
        ("{{ stream_slice.k == 'v' and record.a == parameters.p }}", [{"a": 1}]),
        ("{{ parameters.p }}", [{"a": 1}, {"a": 2}, {"a": 3}, {}]),
        ("{{ 'no' }}", [{"a": 1}, {"a": 2}, {"a": 3}, {}]),
        (" ", [{"a": 1}, {"a": 2}, {"a": 3}, {}]),
        ("false", []),
        ("", []),
    ],
)
def test_records_are_kept_for_which_the_condition_holds(condition: str, expected: list[Json]) -> None:
    assert expected == kept(condition)
