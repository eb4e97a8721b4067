"""Items open in order, close in any, and are taken only from the closed front."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from cdk.state.ack import AckQueue, Ticket


@given(st.lists(st.sampled_from(["open", "close", "take"]), max_size=60), st.randoms(use_true_random=False))
def test_take_never_passes_an_open_item_and_gives_each_once_in_order(steps: list[str], random: Random) -> None:
    queue: AckQueue[int] = AckQueue()
    tickets: list[Ticket[int]] = []
    closed: set[int] = set()
    taken: list[int] = []
    for step in [*steps, "take"]:
        if step == "open":
            tickets.append(queue.open(len(tickets)))
        elif step == "close" and tickets:
            ticket = random.choice(tickets)
            queue.close(ticket)
            closed.add(ticket.item)
        elif step == "take":
            taken += queue.pop_closed()
            front = next((i for i in range(len(tickets)) if i not in closed), len(tickets))

            assert taken == list(range(front))
            assert [t.item for t in queue] == list(range(front, len(tickets)))
            assert len(queue) == len(tickets) - front


def test_closing_twice_or_after_taking_changes_nothing() -> None:
    queue: AckQueue[str] = AckQueue()
    ticket = queue.open("a")
    for _ in range(2):
        queue.close(ticket)

    assert queue.pop_closed() == ["a"]
    queue.close(ticket)
    assert queue.pop_closed() == []
