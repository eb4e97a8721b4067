from pathlib import Path

import orjson
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from cdk.base.errors import ConfigError
from cdk.base.values import Json, Stored, dotted
from cdk.base.yaml_file import YamlFile, check_depth

DOCUMENT = """\
base: &base {step: 1, mode: fast}
streams:
  - name: users
    page: {size: 5}
  - <<: *base
    name: orders
    mode: slow
"""


def load(folder: Path, text: str | bytes) -> YamlFile:
    path = folder / "a.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return YamlFile.load(path)


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (["base"], 1),
        (["streams"], 2),
        (["streams", 0, "page", "size"], 4),
        (["streams", 1, "name"], 6),
        (["streams", 1, "step"], 1),
        (["streams", 1, "mode"], 7),
        (["streams", 0, "absent", "deeper"], 3),
        (["streams", 5], 2),
        (["absent"], 1),
        ([], 1),
    ],
)
def test_a_value_is_found_on_its_line_or_on_that_of_the_nearest_around_it(
    tmp_path: Path, keys: list[str | int], line: int
) -> None:
    file = load(tmp_path, DOCUMENT)

    assert file.where(keys) == f"{tmp_path / 'a.yaml'}:{line} {dotted(keys)}".rstrip()


def test_a_merged_map_gives_way_to_what_is_written_beside_it(tmp_path: Path) -> None:
    value: Stored = load(tmp_path, DOCUMENT).value

    assert value["streams"][1] == {"step": 1, "mode": "slow", "name": "orders"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("start: 2024-01-01", {"start": "2024-01-01"}),
        ("start: 2024-13-45", {"start": "2024-13-45"}),
        ("at: 2024-01-01T00:00:00Z", {"at": "2024-01-01T00:00:00Z"}),
        ("404: gone\non: push\n1.0: x\n~: y", {"404": "gone", "on": "push", "1.0": "x", "~": "y"}),
        ("a: &x [1]\nb: *x", {"a": [1], "b": [1]}),
        ("a: !!str 5", {"a": "5"}),
        ("", None),
        ("# nothing", None),
    ],
)
def test_what_a_file_gives_is_json(tmp_path: Path, text: str, value: Json) -> None:
    assert load(tmp_path, text).value == value


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    assert load(tmp_path, b"\xef\xbb\xbfname: a").value == {"name": "a"}


@pytest.mark.parametrize(
    ("text", "where", "problem"),
    [
        ("a: [1\nb: 2", ":2:2", "did not find expected"),
        ("a: @b", ":1:4", "found character that cannot start any token"),
        ("a:\n  b: {c: /x/${TABLES}}", ":2:14", "; put the value that has ${TABLES} in quotes"),
        ('a: ["${A}", ${B:-c}]', ":1:14", "; put the value that has ${B} in quotes"),
        ("a: {{ b.c }}", ":1:5", "; put a value that begins with {{ in quotes"),
        ("a:\n\tb: 1", ":2:1", "; indent with spaces, not with tabs"),
        ("a: b\n  c: d", ":2:4", "; check the indentation of this line and the one above"),
        ("a: 1\nb: 2\na: 3", ":3:1", "found the key 'a' twice; keep one"),
        ("a: 1\n---\nb: 2", ":2:1", "another document"),
        ("? [a]\n: b", ":1:3", "found a key that is a list or an object, expected a string"),
        ("a: &x [*x]", ":1:4", "found a value that contains itself"),
        ("a: &x {b: {c: *x}}", ":1:4", "found a value that contains itself"),
        ("a: !!int five", ":1:4", "found a value that does not match its tag"),
        ("a: !!bool maybe", ":1:4", "found a value that does not match its tag"),
        ("a: !!set {b, c}", ":1:4", "no JSON"),
        ("a: !!binary YQ==", ":1:4", "no JSON"),
        ("a: !!timestamp 2024-01-01", ":1:4", "no JSON"),
        ("a: 1\nb: \x00", ":2", "control characters are not allowed"),
    ],
)
def test_what_is_no_yaml_is_named_with_its_place(tmp_path: Path, text: str, where: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)

    assert caught.value.path == f"{tmp_path / 'a.yaml'}{where}"
    assert problem in caught.value.message


@pytest.mark.parametrize("text", ["password: *hunter2", "password: !hunter2", "password: !hunter2 x", "p: @hunter2"])
def test_a_password_that_begins_with_a_sign_of_yaml_is_not_in_the_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)

    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "a.yaml"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(ConfigError, match="cannot be read") as caught:
        YamlFile.load(path)

    assert caught.value.path == str(path)
    assert str(caught.value).count(str(path)) == 1


TEXTS = st.text("ab01: '\"{[-é\n\t#&*!<", max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=12,
)


@given(JSON)
@settings(max_examples=100, deadline=None)
def test_json_written_as_yaml_comes_back(tmp_path_factory: pytest.TempPathFactory, value: Json) -> None:
    texts = [yaml.safe_dump(value, allow_unicode=True), orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()]

    for text in texts:
        assert load(tmp_path_factory.getbasetemp(), text).value == value


def chained(one: str, count: int = 40) -> str:
    """Anchors, each of which uses the one before it; `*` in `one` stands for its alias."""
    lines = [f"a{n}: &a{n} {one.replace('*', f'*a{n - 1}').replace('N', str(n))}" for n in range(1, count)]
    return "\n".join(["a0: &a0 {x: 1}", *lines])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        # Some builds of libyaml count levels, too, and see more of a line than has been parsed.
        ("[" * 50_000, "nested deeper than 200 levels|maximum nesting depth"),
        ("[" * 300, "nested deeper than 200 levels"),
        ("{a: " * 50_000, "nested deeper than 200 levels"),
        ("- " * 50_000, "nested deeper than 200 levels"),
        ("\n".join(" " * n + "a:" for n in range(3000)), "nested deeper than 200 levels"),
        (chained("[*, *, *, *, *, *, *, *, *]"), "more than 2000000 values"),
        (chained("{<<: *, bN: {<<: *}}"), "more than 2000000 values"),
        (chained("{<<: *, bN: *}"), "more than 2000000 values"),
        (chained("[*]", 1_900), "deeper than 200 levels"),
    ],
)
def test_a_file_that_would_have_no_end_is_refused_with_its_place(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as refused:
        load(tmp_path, text)

    assert refused.value.path.startswith(str(tmp_path))


def test_merges_of_merges_have_each_key_once(tmp_path: Path) -> None:
    value: Stored = load(tmp_path, chained("{<<: [*, *, *, *, *, *, *, *, *], kN: N}")).value

    assert value["a39"] == {"x": 1, **{f"k{n}": n for n in range(1, 40)}}


Merging = tuple[dict[str, int], list[list[int]]]
"""A map's own values, and for each of its `<<` the maps before it that this merges."""

merging_maps = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from(("url_base", "name", "x")), st.integers(0, 9)),
        st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=3), max_size=2),
    ),
    min_size=1,
    max_size=6,
)


@given(merging_maps)
def test_an_earlier_map_of_a_merge_wins_over_later_ones_and_a_map_over_what_it_merges(maps: list[Merging]) -> None:
    lines, expected = list[str](), list[dict[str, int]]()
    for number, (own, merges) in enumerate(maps):
        lists = [[index % number for index in merge] for merge in merges if number]
        parts = [f"<<: [{', '.join(f'*m{index}' for index in merge)}]" for merge in lists]
        lines.append(
            f"m{number}: &m{number} {{{', '.join(parts + [f'{name}: {value}' for name, value in own.items()])}}}"
        )
        merged: dict[str, int] = {}
        for merge in lists:
            for index in reversed(merge):
                merged |= expected[index]
        expected.append(merged | own)

    value = YamlFile.parse("\n".join(lines), Path("maps.yaml")).value

    assert value == {f"m{number}": each for number, each in enumerate(expected)}


@given(st.integers(1, 200))
def test_a_file_may_be_nested_as_deep_as_any_manifest(depth: int) -> None:
    check_depth("[" * depth + "]" * depth)


def test_what_is_no_file_may_have_no_anchors() -> None:
    with pytest.raises(yaml.MarkedYAMLError, match="alias"):
        check_depth("[&a 1, *a]", anchors=False)
