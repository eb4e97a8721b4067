"""A sink that keeps what it was told: which entities it has, and which of them are flagged as removed."""

from collections.abc import Callable, Iterable, Sequence


class Crash(Exception):
    """The process ends here."""


class Catalog:
    """Entities by id: True while shown, False once flagged. Confirms everything but `stubborn` ids.

    budget: calls after which the process dies, just after the call has done its work; None: never.
    """

    def __init__(self, stubborn: Iterable[str] = ()) -> None:
        self.entities: dict[str, bool] = {}
        self.stubborn = set(stubborn)
        self.calls: list[tuple[str, tuple[str, ...]]] = []
        self.before: Callable[[str], None] = lambda _: None

    @property
    def shown(self) -> set[str]:
        return {id for id, there in self.entities.items() if there}

    @property
    def hidden(self) -> set[str]:
        return self.entities.keys() - self.shown

    def write(self, id: str) -> None:
        """Write an entity; as in many catalogs, this does not take the flag off one that has it."""
        self.entities.setdefault(id, True)

    def remove(self, ids: Sequence[str], *, hard: bool) -> list[str]:
        return self._done("remove hard" if hard else "remove", ids, shown=False, hard=hard)

    def revive(self, ids: Sequence[str]) -> list[str]:
        return self._done("revive", ids, shown=True)

    def _done(self, what: str, ids: Sequence[str], *, shown: bool, hard: bool = False) -> list[str]:
        self.before(what)
        self.calls.append((what, tuple(ids)))
        done = [id for id in ids if id not in self.stubborn]
        for id in done:
            if hard:
                self.entities.pop(id, None)
            elif id in self.entities:
                self.entities[id] = shown
        return done
