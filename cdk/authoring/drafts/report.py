"""The report on a draft: everything that was guessed, and what was left out, with similar entries grouped."""

from collections.abc import Iterator

from cdk.authoring.drafts.draft import Draft, Guess
from cdk.base.wording import listed


def report(draft: Draft, most: int | None = None) -> Iterator[str]:
    """Yield lines of Markdown. most: the most names and paths of a list to show; None for all."""
    yield "## What was guessed"
    yield ""
    grouped: dict[tuple[str, str], tuple[Guess, list[str]]] = {}
    for stream in draft.streams:
        for guess in stream.guesses:
            grouped.setdefault((guess.what, guess.why), (guess, []))[1].append(f"`{stream.name}`")
    for guess in draft.guesses:
        yield _line(guess)
    for guess, streams in grouped.values():
        yield f"{_line(guess)} ({listed(streams, most)})"
    if draft.left_out:
        yield ""
        yield "## What was left out"
        yield ""
        reasons: dict[str, list[str]] = {}
        for each in draft.left_out:
            reasons.setdefault(each.reason, []).append(f"`{each.path}`")
        for reason, paths in reasons.items():
            yield f"- {reason}: {listed(paths, most)}"


def _line(guess: Guess) -> str:
    return f"- {guess.what}. Why: {guess.why}. Check: {guess.check}."
