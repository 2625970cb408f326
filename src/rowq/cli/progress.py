"""A progress bar on stderr while something long runs; none when stderr is not a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rowq.cli.hint import is_seen

Advance = Callable[[int], None]
"""Called with how much is done so far."""


@contextmanager
def bar(title: str, total: int | None, *, of_bytes: bool = False, hidden: bool = False) -> Iterator[Advance]:
    if hidden or not is_seen():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    amount = DownloadColumn() if of_bytes else MofNCompleteColumn()
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), amount, TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=total)
        yield lambda done: progress.update(task, completed=done)
