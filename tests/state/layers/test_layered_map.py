"""A map of layers is the dict that the same updates make, whatever layers are joined on the way."""

from hypothesis import given, settings
from hypothesis import strategies as st

from cdk.state.layers.layered_map import LayeredMap, MemoryLayer, Texts, absorbed

KEYS = st.integers(0, 1_600).map(str)
UPDATES = st.lists(st.dictionaries(KEYS, st.none() | st.sampled_from("abc"), max_size=30), max_size=40)
START = {str(n): "a" for n in range(1_500)}


def changed(texts: dict[str, str], update: Texts) -> dict[str, str]:
    return {key: text for key, text in {**texts, **update}.items() if text is not None}


@given(UPDATES, st.data())
@settings(deadline=None, max_examples=50)
def test_updates_make_what_they_make_of_a_dict(updates: list[dict[str, str | None]], data: st.DataObject) -> None:
    maps, dicts = [LayeredMap.of(START)], [dict(START)]
    for update in updates:
        maps.append(maps[-1].updated(update))
        dicts.append(changed(dicts[-1], update))
    one, other = (data.draw(st.integers(0, len(maps) - 1)) for _ in range(2))

    assert dict(maps[-1]) == dicts[-1]
    assert (len(maps[-1]), maps[-1].size) == (len(dicts[-1]), sum(len(k) + len(v) for k, v in dicts[-1].items()))
    assert changed(dicts[other], maps[one].since(maps[other])) == dicts[one]
    assert (maps[one] == maps[other]) == (dicts[one] == dicts[other])
    assert dict(maps[0]) == START


def test_an_update_shares_all_layers_below_it() -> None:
    whole = LayeredMap.of(START)
    moved = whole.updated({"7": "b"})

    assert moved.shared(whole) == 1
    assert moved.since(whole) == {"7": "b"}
    assert whole.updated({"7": "a"}) is whole


def test_layers_stay_few_and_each_text_is_joined_few_times() -> None:
    weights: list[int] = []
    joined = 0
    for _ in range(5_000):
        most = absorbed(weights, 10, live=1_000_000)
        below = weights[: len(weights) - most]
        weights = [*below, 10 + sum(weights[len(below) :])]
        joined += weights[-1]
        assert len(weights) <= 60

    assert joined <= 4 * 5_000 * 10


def test_when_as_much_was_replaced_as_counts_all_become_one() -> None:
    assert absorbed([100, 90], 10, live=100) == 0
    assert absorbed([100, 90], 11, live=100) == 2


@given(UPDATES, KEYS, st.data())
@settings(deadline=None, max_examples=50)
def test_keys_come_in_their_order_and_what_differs_with_both_texts(
    updates: list[dict[str, str | None]], key: str, data: st.DataObject
) -> None:
    maps = [LayeredMap([MemoryLayer(START), MemoryLayer({"5": None})])]
    for update in updates:
        maps.append(
            LayeredMap([*maps[-1].layers, MemoryLayer(update)]) if len(update) % 2 else maps[-1].updated(update)
        )
    one, other = (maps[data.draw(st.integers(0, len(maps) - 1))] for _ in range(2))
    texts, others = dict(one), dict(other)

    assert [*one.sorted_from(key)] == [(each, texts[each]) for each in sorted(texts) if each >= key]
    assert [*one.sorted_from(key, back=True)] == [
        (each, texts[each]) for each in sorted(texts, reverse=True) if each < key
    ]
    both = ((each, others.get(each), texts.get(each)) for each in sorted({*texts, *others}))
    assert [*one.differing(other)] == [each for each in both if each[1] != each[2]]
