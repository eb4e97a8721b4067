"""Keys that are numbers, however the source spells them: two records are one row if their column holds one value."""

from collections.abc import Mapping

from hypothesis import example, given, settings
from hypothesis import strategies as st

from cdk import Json
from cdk.base.records.exact_json import WrittenNumber
from tests.worlds.test_records import ID_TYPES, LIMITS, SIZES, Put, Turn, World, follow

EXACT = 2**53 + 1
"""An integer that no double represents."""
SPELLED = st.sampled_from(
    [
        *(0, 0.0, -0.0, WrittenNumber("1e-400"), WrittenNumber("1e-0400")),
        *(1, 1.0, "1", "1.0", 1.5, "1.5"),
        *(EXACT, WrittenNumber(f"{EXACT}.0"), WrittenNumber(f"{EXACT}.00"), EXACT - 1, float(EXACT)),
        *(2**70, 2.0**70, WrittenNumber(f"{2**70}.0"), 10**23, 1e23),
    ]
)


@st.composite
def numbered(draw: st.DrawFn) -> World:
    puts = st.lists(st.builds(Put, SPELLED, form=st.integers(0, 1)), max_size=8)
    return World(
        draw(st.sampled_from(["Whole", "Divided", "Counted", "Numbered"])),
        {"write_mode": "append_dedup"},
        draw(st.lists(st.builds(Turn, puts, SIZES), min_size=1, max_size=3)),
        {"id": draw(st.sampled_from(ID_TYPES))},
        draw(st.booleans()),
        tasks=draw(st.integers(1, 2)),
        limits=draw(LIMITS),
    )


def _of(kind: Mapping[str, Json], *ids: Json, text: bool = False) -> World:
    return World("Whole", {"write_mode": "append_dedup"}, [Turn([Put(id)]) for id in ids], {"id": kind}, text)


@example(_of(ID_TYPES[0], 10**23, 1e23))
@example(_of(ID_TYPES[0], 10**40, 1e40))
@example(_of(ID_TYPES[1], EXACT, WrittenNumber(f"{EXACT}.0")))
@example(_of(ID_TYPES[2], WrittenNumber("1e-400"), 0.0, text=True))
@settings(max_examples=20)
@given(numbered())
def test_numbers_are_one_key_if_their_column_holds_one_value(world: World) -> None:
    follow(world)
