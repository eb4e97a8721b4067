"""What checks, errors and warnings say of a file, as problems with lines."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from cdk.authoring.problems import Problem, Problems
from cdk.base.errors import BadState, ConfigError
from cdk.base.logs import logger
from cdk.base.secret_masking import Secrets
from cdk.base.values import Location

JSON = """{
\t"a": [
\t\t{"b": 1}
\t]
}"""


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (ConfigError("is not YAML", path=Location("other.yaml", (), 3, 7)), Problem("other.yaml", "is not YAML", 3, 7)),
        (ConfigError("is odd", path=Location("m.yaml", ("x", 2), 41)), Problem("m.yaml", "is odd", 41, None, "x[2]")),
        (ConfigError("is 1", path=Location("FILE", ("a", 0, "b"))), Problem("FILE", "is 1", 3, None, "a[0].b")),
        (
            ConfigError("is missing", path=Location(keys=("a", 0, "c.d"))),
            Problem("FILE", "is missing", 3, None, "a[0].c.d"),
        ),
        (ConfigError("is not JSON", path=Location("FILE", (), 2, 5)), Problem("FILE", "is not JSON", 2, 5)),
        (ConfigError("is missing", path=Location(keys=("orders",))), Problem("FILE", "is missing", 1, None, "orders")),
        (ConfigError("nothing of the file"), Problem("FILE", "nothing of the file", 1)),
        (ConfigError("cannot be read", path="FILE"), Problem("FILE", "cannot be read", 1)),
        (ConfigError("cannot be read", path="schema.json"), Problem("schema.json", "cannot be read")),
        (BadState("state of x.day", 1, "a day"), Problem("FILE", "state of x.day: found 1, expected a day", 1)),
        (ConfigError("the secret hunter2 is here"), Problem("FILE", "the secret **** is here", 1)),
    ],
)
def test_an_error_is_a_problem_at_its_line(error: ConfigError, problem: Problem, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(JSON)
    problems = Problems(file, Secrets(["hunter2"]))
    location = error.path
    if isinstance(location, Location):
        error.path = Location(location.file.replace("FILE", str(file)), location.keys, location.line, location.column)
    else:
        error.path = location.replace("FILE", str(file))

    problems.add_error(error)

    assert problems.all == [replace(problem, file=problem.file.replace("FILE", str(file)))]


def test_a_file_whose_name_has_blanks_is_known_where_it_is_there(tmp_path: Path) -> None:
    (other := tmp_path / "my other.yaml").write_text("a: 1")
    problems = Problems(tmp_path / "my own.yaml", Secrets())

    problems.add("is wrong", str(other))
    problems.add("is long", "x " * 999)

    assert {problem.file for problem in problems.all} == {str(other), str(tmp_path / "my own.yaml")}


def test_errors_come_first_and_each_once(tmp_path: Path) -> None:
    problems = Problems(tmp_path / "a.yaml", Secrets())
    errors = [
        ConfigError("is wrong", path=Location("c.yaml", ("x",), 1)),
        ConfigError("is wrong, too", path=Location(keys=("y",))),
    ]

    for _ in range(2):
        with problems.gathering():
            logger.warning("%s: looks odd", Location("b.yaml", ("x",), 2))
            raise ConfigError.together(errors)

    assert [str(problem) for problem in problems.all] == [
        f"{tmp_path}/a.yaml y: is wrong, too",
        "c.yaml:1 x: is wrong",
        "b.yaml:2 x: warning: looks odd",
    ]


def test_a_warning_that_is_there_with_its_line_is_not_repeated_without() -> None:
    problems = Problems(Path("a.yaml"), Secrets())

    problems.add("nothing defines x", Location("a.yaml", ("streams", 0, "url"), 9), certain=False)
    problems.add("nothing defines x", Location("a.yaml", ("streams", 1, "url"), 12), certain=False)
    problems.add("users: HttpRequester.url: nothing defines x", certain=False)

    assert [problem.line for problem in problems.all] == [9, 12]
