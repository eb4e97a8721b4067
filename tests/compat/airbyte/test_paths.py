import pytest

from cdk.base.values import JsonValue
from cdk.compat.airbyte.paths import get, values

BODY: JsonValue = {"data": {"items": [{"id": 1}, {"id": 2}], "map": {"a": {"id": 3}}}}


def test_a_path_leads_through_objects_and_lists() -> None:
    assert get(BODY, "data/items/1/id") == 2
    assert get(BODY, ["data", "map", "a"]) == {"id": 3}


def test_a_path_that_leads_nowhere_gives_the_default_or_says_so() -> None:
    assert get(BODY, "data/none", default=[]) == []
    with pytest.raises(KeyError, match="data/none"):
        get(BODY, "data/none")


def test_a_star_is_any_key_or_index() -> None:
    assert values(BODY, "data/items/*/id") == [1, 2]
    assert values(BODY, ["data", "map", "*"]) == [{"id": 3}]
    assert values(BODY, "data/none/*") == []
