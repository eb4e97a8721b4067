"""A state beside a table that cannot be read is an error, and never taken for none."""

from pathlib import Path

import pytest

from cdk.base.errors import BadState, StateError
from tests.spark.users_table import blobs, opened, saved, wrote


@pytest.mark.parametrize(
    ("content", "kind", "problem"),
    [
        (None, StateError, "this file is missing; bring it back, or move the table away"),
        (b"", BadState, "expected the JSON an earlier run wrote"),
        (b'{"format": "spark-cdk/1"', BadState, "expected the JSON an earlier run wrote"),
        (b"[]", BadState, 'expected a state of the format "spark-cdk/1"'),
        (b'{"format": "spark-cdk/99"}', BadState, 'expected a state of the format "spark-cdk/1"'),
        (b'{"format": "spark-cdk/1"}', BadState, "expected the fields an earlier run wrote"),
        (
            b'{"format": "spark-cdk/1", "stream": "users", "pending": [], "history": [], "what": 1}',
            BadState,
            "expected the fields an earlier run wrote",
        ),
    ],
)
def test_a_state_file_that_is_missing_or_broken_is_an_error_that_names_it(
    root: Path, content: bytes | None, kind: type[StateError], problem: str
) -> None:
    opened(root).commit(saved(1), wrote(root, 1))
    (path,) = blobs(root)
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)

    with pytest.raises(kind) as caught:
        opened(root)

    assert problem in caught.value.message
    assert (caught.value.path, caught.value.stream) == (str(path), "users")
