"""PageSizes: the size of the next page, also where an earlier attempt had reduced it."""

import pytest

from cdk.declarative.reading.page_size_reduction import PageSizes, Reduction


def reduction(*, restores: bool = False) -> Reduction:
    return Reduction(2, 10, 3, 0, 0, restores, "", lambda _: None)


@pytest.mark.parametrize(
    ("saved", "restores", "asked"),
    [(50, False, 50), (50, True, 100), (5, False, 100), (200, False, 100), (None, False, 100)],
)
def test_a_resumed_read_goes_on_with_the_size_that_was_reduced(
    saved: int | None,
    restores: bool,  # noqa: FBT001
    asked: int,
) -> None:
    sizes = PageSizes(reduction(restores=restores), 100)
    sizes.resume(saved)

    assert sizes.size == asked


def test_without_a_reduction_the_size_is_what_is_said_now() -> None:
    sizes = PageSizes(None, 100)
    sizes.resume(50)

    assert sizes.size == 100
