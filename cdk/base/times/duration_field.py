"""The type of pydantic fields with a duration; apart from its grammar, so that commands without one start faster.

Importing pydantic takes a fifth of a start.
"""

from datetime import timedelta
from typing import Annotated

from pydantic import BeforeValidator

from cdk.base.times.durations import duration

DurationField = Annotated[timedelta, BeforeValidator(duration, json_schema_input_type=str)]
"""A field that accepts durations as people write them."""
