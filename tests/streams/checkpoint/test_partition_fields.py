"""Partitions that are not those of the state, by their fields or by the types of their values."""

import pytest

from cdk import Partition
from cdk.base.values import FieldValue
from cdk.streams.checkpoint.partition_fields import ComparedFields, other_types

SHOP, STORE = Partition.of(shop="a"), Partition.of(store="a")


@pytest.mark.parametrize(("before", "now"), [(1, 1.0), (1.0, 1), ("1", 1.0), (1.0, "1"), ("1.0", 1), (1, "1.0")])
def test_a_number_that_is_written_in_another_way_is_of_another_type(before: FieldValue, now: FieldValue) -> None:
    assert Partition.of(id=before) in [*other_types(Partition.of(id=now))]


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ({"id": "1", "parent": {"org": 2}}, {"id": 1, "parent": {"org": 2}}),
        ({"id": 1, "parent": {"org": "2"}}, {"id": 1, "parent": {"org": 2}}),
        ({"id": "true"}, {"id": True}),
    ],
)
def test_any_value_of_a_partition_may_be_of_another_type(
    before: dict[str, FieldValue], now: dict[str, FieldValue]
) -> None:
    assert Partition(before) in [*other_types(Partition(now))]
    assert Partition(now) not in [*other_types(Partition(now))]


@pytest.mark.parametrize("value", ["a", "01", "1 ", 2**53 + 1, "[1]"])
def test_other_values_are_of_no_other_number(value: FieldValue) -> None:
    known = [partition.fields["id"] for partition in other_types(Partition.of(id=value))]

    assert not [other for other in known if other != value and other != str(value)]


def test_many_fields_are_compared_in_so_many_forms_and_no_more() -> None:
    assert len([*other_types(Partition({f"f{n}": n for n in range(20)}))]) < 64


def test_the_fields_of_todays_partitions_are_compared_until_one_has_those_of_the_state() -> None:
    compared = ComparedFields([SHOP])

    assert compared.difference == ""
    assert not compared.has_those_of(STORE)
    assert compared.difference == "the state has partitions by 'shop', but the source's partitions now have 'store'"
    assert compared.has_those_of(Partition.of(shop="b"))
