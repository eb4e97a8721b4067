from cdk import Partition, Slice
from cdk.state.window import Window
from cdk.sync.loop.job_name import job_name


def test_streams_are_named_with_the_stretch_they_are_read_in() -> None:
    days = [Slice(window=Window(f"2024-01-{n:02}", f"2024-01-{n + 1:02}")) for n in (1, 2, 3)]

    assert job_name("shop", [("orders", days[0]), ("users", Slice()), *(("orders", day) for day in days[1:])]) == (
        "shop: orders 2024-01-01..2024-01-04, users"
    )


def test_of_many_streams_three_are_named() -> None:
    assert job_name("shop", [(name, Slice()) for name in "abcdef"]) == "shop: a, b, c (3 more)"


def test_partitions_are_left_out_and_long_values_cut() -> None:
    slice = Slice(Partition.of(customer="hunter2"), Window("x" * 100))

    assert job_name("shop", [("visits", slice)]) == f"shop: visits {'x' * 39}….."
