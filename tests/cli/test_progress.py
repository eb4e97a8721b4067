from io import StringIO

from rich.console import Console

from cdk.base.secret_masking import Secrets
from cdk.cli.progress import Progress
from cdk.protocol.catalog import StreamDescriptor

USERS, ORDERS = StreamDescriptor(name="users"), StreamDescriptor(name="orders")


class Hand:
    """Seconds, moved by hand."""

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


def shown(progress: Progress, text: StringIO) -> list[list[str]]:
    with progress:
        pass
    return [line.split() for line in text.getvalue().splitlines()]


def test_each_stream_has_a_row_with_records_rate_and_last_state() -> None:
    clock, text = Hand(), StringIO()
    progress = Progress(Secrets(["hunter2"]).mask, Console(file=text, width=120), clock=clock)
    progress.started(USERS)
    progress.records(USERS, 3000, 10**6)
    progress.state(USERS, {"page": 3})
    clock.at = 2.0
    progress.ended(USERS, None)
    progress.started(ORDERS)
    progress.records(ORDERS, 1, 100)
    clock.at = 3.0
    progress.ended(ORDERS, ValueError("hunter2"))

    _, users, orders = shown(progress, text)

    assert users == ["users", "3,000", "1,500", '{"page":3}', "complete"]
    assert orders == ["orders", "1", "1", "ValueError:", "****"]


def test_the_name_of_a_stream_is_no_markup() -> None:
    text = StringIO()
    progress = Progress(str, Console(file=text, width=120), clock=Hand())
    progress.started(StreamDescriptor(name="orders[/beta]"))

    assert shown(progress, text)[1][0] == "orders[/beta]"
