"""What is said of an error: its words, and the line of the connector that led to it."""

from pathlib import Path

from cdk.rest.http.messages import Headers
from cdk.sync.tasks.messages import Failure


def failure(raise_it: object) -> str:
    assert callable(raise_it)
    try:
        raise_it()
    except Exception as error:  # noqa: BLE001 - whatever the connector raises
        return Failure.of(error).message
    raise AssertionError


def test_an_error_names_the_last_line_of_the_connector_before_the_kit() -> None:
    def connector() -> None:
        Headers(7)  # type: ignore[arg-type]

    line = connector.__code__.co_firstlineno + 1

    assert failure(connector).endswith(f"({__file__}:{line}, in connector)")


def test_a_line_of_the_kit_is_not_taken_for_one_of_the_connector() -> None:
    kit = compile(
        "raise KeyError('x')", str(Path(Headers.__init__.__code__.co_filename).with_name("client.py")), "exec"
    )
    frames = {"raised": kit}

    def engine() -> None:
        exec(frames["raised"], {})  # noqa: S102 - stands for a line of the kit

    message = failure(engine)

    assert "client.py" not in message
