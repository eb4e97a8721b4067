"""What the table of a world in time must hold, and how far each pipeline has read."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from cdk import Json

PIPELINES = ("world", "market", "tide")


@dataclass(frozen=True)
class Moment:
    """What a state is of. read: records that were read to the end; count: how many there were; gone: what had left.

    again: records before `read` that the next sync reads once more. ahead: some from `read` on that were read already.
    """

    read: int = 0
    count: int = 0
    gone: frozenset[int] = frozenset()
    again: frozenset[int] = frozenset()
    ahead: frozenset[int] = frozenset()


@dataclass
class Reading:
    """How far a pipeline has read. read: records, as of its last sync that got to its end. busy: it syncs now.

    cut: its last sync did not get to its end. since: the first record that came after its cut sync, to which the table
    was restored; the rest of that sync leaves such records to the one after it. unsure: serial numbers of these, of
    rows that were deleted while it was cut or busy, and of those that others added while it was busy with several
    streams: its commit may have come before or after that. moments: what each of its states is of, by its number;
    known_to: the greatest number of which that is known. edited: a person has set it into the middle of a read.
    again: records that a person has it read once more. late: others that it may read once more then, as it looks back.
    """

    read: int = 0
    cut: bool = False
    since: int | None = None
    busy: bool = False
    unsure: set[int] = field(default_factory=set)
    moments: dict[int, Moment] = field(default_factory=dict)
    known_to: int = 0
    edited: bool = False
    again: set[int] = field(default_factory=set)
    late: set[int] = field(default_factory=set)

    def to_read(self, count: int, *, whole: bool) -> Iterator[int]:
        """The records, of so many, that the next sync to get to its end has read in all."""
        return (n for n in range(count) if whole or n >= self.read or n in self.again)

    def moved(self, to: int, before: Moment, at_end: Moment | None) -> None:
        """Its states have moved on to a number. before: how far it had read when the sync began; at_end: at its end."""
        self.moments |= dict.fromkeys(range(self.known_to + 1, to + 1), before)
        if at_end is not None and to > self.known_to:
            self.moments[to] = at_end
        self.known_to = max(self.known_to, to)


@dataclass
class Copies:
    """How often an `append` must have each record.

    least: at least, when a sync got to its end. more: how often beyond that, at most. vague: records of which no more
    is known than that they are there, for a person had the rest of an older read read once more.
    """

    least: Counter[int] = field(default_factory=Counter)
    more: Counter[int] = field(default_factory=Counter)
    vague: set[int] = field(default_factory=set)

    def too_many(self, rows: Counter[int], reading: Counter[int]) -> list[int]:
        """Records that are there too often. reading: how often interrupted syncs may have brought each."""
        most = self.least + self.more + reading
        return [n for n, times in rows.items() if n >= 0 and n not in self.vague and times > most[n]]

    def too_few(self, rows: Counter[int], unsure: set[int]) -> list[int]:
        """Records that are not there often enough after a sync that got to its end."""
        due = {n: min(1, times) if n in self.vague else times for n, times in self.least.items() if n not in unsure}
        return [n for n, times in due.items() if rows[n] < times]

    def seen(self, rows: Counter[int], ahead: set[int]) -> None:
        """Take over how often each is there. ahead: of those that a later sync may find read already, or not."""
        self.least, self.more = Counter({n: times for n, times in rows.items() if n >= 0}), Counter()
        self.vague &= ahead


@dataclass
class Model:
    """What the table must hold after a sync that got to its end.

    there: serial numbers by what tells rows apart; those of rows that others have added are below 0. logged: how often
    the history must have each. copies: how often an `append` must.
    """

    there: dict[Json, int] = field(default_factory=dict)
    logged: Counter[int] = field(default_factory=Counter)
    copies: Copies = field(default_factory=Copies)
    readings: dict[str, Reading] = field(default_factory=lambda: {name: Reading() for name in PIPELINES})

    def delete(self, key: Json, n: int, rest: int = 0) -> None:
        """Others have deleted a record's rows. rest: how many are left."""
        self.copies.least[n] = min(self.copies.least[n], rest)
        self.copies.more[n] = rest - self.copies.least[n]
        if not rest:
            self.there.pop(key, None)
        for reading in self.readings.values():
            if reading.cut or reading.busy:
                reading.unsure.add(n)

    def came_meanwhile(self, n: int) -> None:
        for reading in self.readings.values():
            if reading.busy:
                reading.unsure.add(n)

    def complete(
        self, name: str, records: Sequence[tuple[Json, int]], *, mode: str, whole: bool, removes: bool
    ) -> None:
        """Bring it to where a sync that got to its end brings the table. records: the key and number of each."""
        if mode == "overwrite":
            self.there = {}
        for key, n in records:
            self.there[key] = n if whole else max(n, self.there.get(key, n))
        if removes:
            seen = {key for key, _ in records}
            self.there = {key: n for key, n in self.there.items() if key in seen or n < 0}
        numbers = [n for _, n in records]
        self.logged += Counter(numbers)
        self.copies.least += Counter(numbers)
        self.copies.more.update(self.readings[name].late)
        self.readings[name].cut = False
        self.readings[name].again, self.readings[name].late = set(), set()

    @property
    def unsure(self) -> set[int]:
        return set().union(*(reading.unsure for reading in self.readings.values()))

    def seen(self, there: Mapping[Json, int]) -> None:
        """Take over what the table has of the rows that one could not be sure of."""
        unsure = self.unsure
        self.there = {key: n for key, n in self.there.items() if n not in unsure}
        self.there |= {key: n for key, n in there.items() if n in unsure}
        for reading in self.readings.values():
            if not reading.cut:
                reading.unsure = set()
