from datetime import timedelta

import pytest

from cdk.base.times.durations import duration
from cdk.state import StatefulOptions
from cdk.sync.settings.pipeline_file import Pipeline
from cdk.sync.settings.stream_options import SkipOptions


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("500ms", 0.5), ("30s", 30), (" 1.5 h ", 5400), ("90m", 5400), ("2d", 172_800), ("1w", 604_800), ("0s", 0)],
)
def test_a_duration_is_a_number_and_a_unit(text: str, seconds: float) -> None:
    assert duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "value", ["", "30", 30, None, "-1s", "2 days", "1y", timedelta(-1), "9" * 400 + "d", "999999999w"]
)
def test_anything_else_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="expected a duration such as"):
        duration(value)


def test_all_durations_of_files_are_written_alike() -> None:
    given = {"name": "shop", "source": {"connector": "shop"}, "target": {"path": "x"}}
    for text, expected in (("2d", timedelta(2)), ("500ms", timedelta(milliseconds=500))):
        assert Pipeline.model_validate({**given, "checkpoint_interval": text}).checkpoint_interval == expected
        assert SkipOptions.model_validate({"settle": text}).settle == expected
        assert StatefulOptions.parse({"settle": text, "max_fill": text}).max_fill == expected
