from cdk.base.values import JsonValue, canonical
from cdk.cli.ui.heat_map import heat_map
from cdk.state.layers.layered_map import LayeredMap
from cdk.state.stored_positions import PartitionEntries

MANY = 20_000


def test_the_later_the_cursor_the_stronger_the_colour() -> None:
    cursors: list[JsonValue] = [{"at": "2024-01-02"}, {"at": "2024-02-01"}, {"at": "2023-12-31"}, {}, None]
    done = {"__ab_full_refresh_sync_complete": True}
    state = {"states": [{"partition": {"n": n}, "cursor": cursor} for n, cursor in enumerate([*cursors, done])]}

    cells = heat_map(state, "", 10).cells

    assert [cell.kind for cell in cells] == ["heat3", "heat5", "heat1", "start", "start", "done"]
    assert [cell.title for cell in cells[2:4]] == ['{"n":2}: at 2023-12-31', '{"n":3}: at its start']
    assert [cell.x for cell in cells[:2]] == [0, 18]


def test_numbers_are_compared_as_numbers() -> None:
    state = {"states": [{"partition": {"n": n}, "cursor": {"seq": n}} for n in (9, 10, 100)]}

    kinds = {cell.title: cell.kind for cell in heat_map(state, "", 10).cells}
    assert kinds == {'{"n":9}: seq 9': "heat1", '{"n":10}: seq 10': "heat3", '{"n":100}: seq 100': "heat5"}


def test_where_all_stand_at_one_cursor_it_is_the_latest() -> None:
    state = {"states": [{"partition": {"n": n}, "cursor": {"seq": 7}} for n in range(3)]}

    assert [cell.kind for cell in heat_map(state, "", 10).cells] == ["heat5"] * 3
    assert [cell.kind for cell in heat_map({"seq": 7}, "", 10).cells] == ["heat5"]


def test_of_many_partitions_those_of_a_page_are_looked_at() -> None:
    texts = {canonical({"n": f"{n:05}"}): canonical({"cursor": {"seq": n}}) for n in range(MANY)}
    broken = {canonical({"n": f"{MANY}"}): "this would be an error if it were decoded"}
    state = {"states": PartitionEntries(LayeredMap.of({**texts, **broken}))}

    map_ = heat_map(state, '{"n":"1200', 5)

    assert map_.total == MANY + 1
    assert [cell.title for cell in map_.cells] == [f'{{"n":"{n}"}}: seq {n}' for n in range(12_000, 12_005)]
    assert (map_.width, map_.height) == (720, 18)
    assert (map_.before, map_.after) == ('{"n":"11995"}', '{"n":"12005"}')


def test_pages_lead_through_all_partitions_and_back() -> None:
    state = {"states": [{"partition": {"n": f"{n:02}"}, "cursor": {"seq": n}} for n in range(12)]}

    first = heat_map(state, "", 5)
    second = heat_map(state, first.after or "", 5)
    third = heat_map(state, second.after or "", 5)
    beyond = heat_map(state, "~", 5)

    assert [len(each.cells) for each in (first, second, third, beyond)] == [5, 5, 2, 0]
    assert (first.before, third.after, beyond.after) == (None, None, None)
    assert heat_map(state, third.before or "", 5) == second
    assert beyond.before == '{"n":"07"}'


def test_windows_that_a_read_left_open_are_shown_with_where_each_stands() -> None:
    slices: list[JsonValue] = [
        {"window": [10, 19, 20, False], "cursor": {"page": 3}},
        {"window": [20, 29, 30, False], "done": True},
        {"window": [30, 39, 40, True]},
    ]
    state = {"seq": 5, "_cdk": {"through": 10, "slices": slices}}

    (windows,) = heat_map(state, "", 10).windows

    assert [(cell.kind, cell.title) for cell in windows.cells] == [
        ("heat1", "10 to 19: page 3"),
        ("done", "20 to 29: read to the end"),
        ("start", "30 to 39: at its start"),
    ]


def test_very_many_open_windows_are_counted() -> None:
    windows: list[JsonValue] = [{"window": [n, n, n + 1, False]} for n in range(250)]
    cursor = {"seq": 5, "_cdk": {"through": 10, "slices": windows}}
    state = {"states": [{"partition": {"n": n}, "cursor": cursor} for n in range(30)]}

    map_ = heat_map(state, "", 100)

    assert (len(map_.windows), map_.further_windows) == (10, 20)
    assert (len(map_.windows[0].cells), map_.windows[0].further) == (200, 50)
