"""What is said of a draft: its streams, all that was guessed, and what was left out, alike things together."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from cdk.authoring.drafts.draft import Draft, Guess


def report(draft: Draft, most: int | None = None) -> Iterator[str]:
    """Lines of Markdown. most: names and paths of a list that are shown; all without it."""
    yield "## What was guessed"
    yield ""
    grouped: dict[tuple[str, str], tuple[Guess, list[str]]] = {}
    for stream in draft.streams:
        for guess in stream.guesses:
            grouped.setdefault((guess.what, guess.why), (guess, []))[1].append(f"`{stream.name}`")
    for guess in draft.guesses:
        yield _line(guess)
    for guess, streams in grouped.values():
        yield f"{_line(guess)} ({_listed(streams, most)})"
    if draft.left_out:
        yield ""
        yield "## What was left out"
        yield ""
        for reason, paths in _by_reason(draft).items():
            yield f"- {reason}: {_listed(paths, most)}"


def _line(guess: Guess) -> str:
    return f"- {guess.what}. Why: {guess.why}. Check: {guess.check}."


def _by_reason(draft: Draft) -> Mapping[str, Sequence[str]]:
    reasons: dict[str, list[str]] = {}
    for each in draft.left_out:
        reasons.setdefault(each.reason, []).append(f"`{each.path}`")
    return reasons


def _listed(names: Sequence[str], most: int | None) -> str:
    shown: Iterable[str] = names if most is None else names[:most]
    more = 0 if most is None else len(names) - most
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")
