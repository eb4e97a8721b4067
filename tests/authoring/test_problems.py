"""What errors say, as problems with lines."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from cdk.authoring.problems import Problem, Problems, locating
from cdk.base.errors import ConfigError
from cdk.base.logs import logger
from cdk.base.secret_masking import Secrets

JSON = """{
\t"a": [
\t\t{"b": 1}
\t]
}"""


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("other.yaml:3:7: is not YAML", Problem("other.yaml", "is not YAML", 3, 7)),
        ("m.yaml:41 streams[2].x: unknown: y", Problem("m.yaml", "unknown: y", 41, None, "streams[2].x")),
        ("FILE: a[0].b: found 1, expected 2", Problem("FILE", "found 1, expected 2", 3, None, "a[0].b")),
        ("FILE: a[0].c.d: is missing", Problem("FILE", "is missing", 3, None, "a[0].c.d")),
        ("FILE: is not JSON: bad (line 2, column 5)", Problem("FILE", "is not JSON: bad", 2, 5)),
        ("a: is unknown", Problem("FILE", "is unknown", 2, None, "a")),
        ("nothing of the file", Problem("FILE", "nothing of the file", 1)),
        ("cannot read schema.json: No such file", Problem("FILE", "cannot read schema.json: No such file", 1)),
        ("cannot read x.yaml:3: is odd", Problem("FILE", "cannot read x.yaml:3: is odd", 1)),
        ("schema.json: No such file", Problem("schema.json", "No such file")),
        ("HTTPError: boom", Problem("FILE", "HTTPError: boom", 1)),
        ("orders: 3 of 4 records", Problem("FILE", "orders: 3 of 4 records", 1)),
        ("FILE: orders: is missing", Problem("FILE", "is missing", 1, None, "orders")),
        ("the secret hunter2 is here", Problem("FILE", "the secret **** is here", 1)),
    ],
)
def test_a_line_of_an_error_is_a_problem_at_its_line(text: str, problem: Problem, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(JSON)
    problems = Problems(file, Secrets(["hunter2"]))

    problems.add(text.replace("FILE", str(file)))

    expected = replace(problem, file=problem.file.replace("FILE", str(file)))
    assert problems.all == [expected]


def test_a_file_whose_name_has_blanks_is_known_where_it_is_there(tmp_path: Path) -> None:
    (other := tmp_path / "my other.yaml").write_text("a: 1")
    own = tmp_path / "my own.yaml"
    problems = Problems(own, Secrets())

    problems.add(f"{other}: is wrong\n{own}:2 a: is wrong, too\n{'x ' * 999}a.yaml: is long")

    assert {problem.file for problem in problems.all} == {str(other), str(own)}
    assert [problem.message for problem in problems.all if problem.line] == ["is wrong, too"]


def test_an_empty_line_of_an_error_is_no_problem_and_hides_none(tmp_path: Path) -> None:
    problems = Problems(tmp_path / "a.yaml", Secrets())

    problems.add("one\n\n  \ntwo")
    problems.add("three", certain=False)

    assert [problem.message for problem in problems.all] == ["one", "two", "three"]


def test_errors_come_first_and_each_once(tmp_path: Path) -> None:
    problems = Problems(tmp_path / "a.yaml", Secrets())

    for _ in range(2):
        with problems.gathering():
            logger.warning("b.yaml:2 x: looks odd")
            raise ConfigError("x: is wrong\ny: is wrong, too", path="c.yaml:1")

    assert [str(problem) for problem in problems.all] == [
        f"{tmp_path}/a.yaml y: is wrong, too",
        "c.yaml:1: x: is wrong",
        "b.yaml:2 x: warning: looks odd",
    ]


def test_a_warning_that_is_there_with_its_line_is_not_repeated_without() -> None:
    problems = Problems(Path("a.yaml"), Secrets())

    problems.add("a.yaml:9 streams[0].url: nothing defines x", certain=False)
    problems.add("a.yaml:12 streams[1].url: nothing defines x", certain=False)
    problems.add("users: HttpRequester.url: nothing defines x", certain=False)

    assert [problem.line for problem in problems.all] == [9, 12]


@pytest.mark.parametrize(
    ("text", "located"),
    [
        ("a[0].b: found 1, expected 2", "FILE:3: a[0].b: found 1, expected 2"),
        ("a[0].c: is not there", "a[0].c: is not there"),
        ("a.b: has no parts", "a.b: has no parts"),
        ("nothing of the file", "nothing of the file"),
    ],
)
def test_an_error_of_a_command_that_names_a_part_of_a_file_names_its_line(
    tmp_path: Path, text: str, located: str
) -> None:
    (file := tmp_path / "a.json").write_text(JSON)

    with pytest.raises(ConfigError) as raised, locating(file):
        raise ConfigError(text)

    assert str(raised.value) == located.replace("FILE", str(file))


def test_an_error_that_has_a_place_retains_it(tmp_path: Path) -> None:
    (file := tmp_path / "a.json").write_text(JSON)

    with pytest.raises(ConfigError, match=r"^other\.json: a: is unknown$"), locating(file):
        raise ConfigError("a: is unknown", path="other.json")
    with pytest.raises(ConfigError, match=r"^a: is unknown$"), locating(None):
        raise ConfigError("a: is unknown")


@pytest.mark.parametrize("text", [None, "a: ["])
def test_an_error_is_told_also_where_its_file_can_be_read_no_more(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "a.yaml"
    if text is not None:
        file.write_text(text)

    with pytest.raises(ConfigError, match=r"^a: is unknown$"), locating(file):
        raise ConfigError("a: is unknown")
