"""What a run tells: how much was tried, what failed on purpose, what was checked, and what was wrong."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

_SHOWN = 20


class Report(msgspec.Struct, kw_only=True):
    database: str
    seed: int
    seconds: float
    """Of work under faults."""
    seconds_in_all: float
    seconds_of_checking: float
    operations: dict[str, int]
    """Way and verb → calls that were answered."""
    messages: int
    errors: dict[str, int]
    """Code → how often somebody heard it."""
    faults: dict[str, int]
    checked: dict[str, int]
    violations: list[str]
    missed: list[str]
    """Goals that were not reached in time."""
    skipped: list[str]
    """Faults that cannot be done here, and why."""
    folder: str
    """Logbooks and complaints, kept where something is wrong."""

    @property
    def is_good(self) -> bool:
        return not self.violations and not self.missed

    def lines(self) -> Iterator[str]:
        """For people."""
        operations, faults = sum(self.operations.values()), sum(self.faults.values())
        yield f"{self.database}, seed {self.seed}: {operations:,} operations, {self.messages:,} messages, {faults:,} faults"
        yield f"  {self.seconds:.0f} s under faults, {self.seconds_of_checking:.0f} s of checking, {self.seconds_in_all:.0f} s in all"
        yield f"  operations   {_counts(self.operations)}"
        yield f"  errors heard {_counts(self.errors)}"
        yield f"  faults       {_counts(self.faults)}"
        yield f"  checked      {_counts(self.checked)}"
        yield from (f"  SKIPPED      {skipped}" for skipped in self.skipped)
        yield from (f"  MISSED       {missed}" for missed in self.missed)
        yield from (f"  VIOLATION    {violation}" for violation in self.violations[:_SHOWN])
        if len(self.violations) > _SHOWN:
            yield f"  and {len(self.violations) - _SHOWN:,} violations more"
        yield f"  {'nothing was violated' if not self.violations else f'kept: {self.folder}'}"


def _counts(counts: dict[str, int]) -> str:
    return " · ".join(f"{what} {count:,}" for what, count in counts.items()) or "none"
