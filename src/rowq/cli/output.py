"""Where results go: text and tables for people, JSON for programs. Everything written to stdout passes through here."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

from msgspec import Struct

from rowq import SystemClock
from rowq.cli.failure import Failure, ReaderGone
from rowq.cli.text import fields, json_line, visible

T = TypeVar("T", bound=Struct)
_LEAST = 12
_GAP = 3


class Column(NamedTuple):
    """A column of a table; only flexible ones are truncated when the terminal is narrow."""

    title: str
    right: bool = False
    flexible: bool = False
    style: str = ""


class Output:
    """Standard output, as text or as JSON."""

    def __init__(self, *, json: bool) -> None:
        self.json = json

    def answer(self, sentence: str, **document: Any) -> None:
        """One result: a sentence for people, one JSON document for programs."""
        if self.json:
            self.document(document)
        else:
            self.line(sentence)

    def line(self, text: str) -> None:
        """One line for people."""
        self.write(visible(text).encode(_encoding(), "backslashreplace") + b"\n")

    def document(self, value: Struct | dict[str, Any]) -> None:
        """One JSON object on its own line."""
        self.write(json_line(fields(value) if isinstance(value, Struct) else value))

    def documents(self, values: Iterable[Struct | dict[str, Any]]) -> bool:
        """A list for programs, one object per line; False, and no output, for people, who get a table."""
        if self.json:
            for value in values:
                self.document(value)
        return self.json

    def listing(self, values: Sequence[T], columns: Sequence[Column], row: Callable[[T, int], Sequence[str]]) -> None:
        """A list: JSON Lines, or a table. `row` takes a value and the time."""
        if not self.documents(values):
            now = SystemClock().now()
            self.table(columns, (row(value, now) for value in values))

    def table(self, columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> None:
        """Rows for people. Without a terminal nothing is wrapped or cut, so that grep finds whole ids."""
        self.write(_drawn(columns, rows).encode(_encoding(), "backslashreplace"))

    def write(self, data: bytes) -> None:
        try:
            self._stream().write(data)
        except OSError as error:
            raise _lost(error) from None

    def flush(self) -> None:
        """Returns only when everything written has been handed over."""
        try:
            self._stream().flush()
        except OSError as error:
            raise _lost(error) from None

    def require(self) -> None:
        """Fails now, before anything is taken out of a queue, if there is nowhere to print it."""
        self._stream()

    def _stream(self) -> Any:
        if sys.stdout is None:
            raise _lost(OSError(errno.EBADF, os.strerror(errno.EBADF)))
        return sys.stdout.buffer


def _encoding() -> str:
    return getattr(sys.stdout, "encoding", None) or "utf-8"


def _lost(error: OSError) -> Exception:
    if error.errno == errno.EPIPE:
        return ReaderGone()
    return Failure(f"the output could not be written: {error.strerror or error}", code="output_lost")


def _drawn(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> str:
    # Rich takes as long to import as all the rest together; --json does without it.
    from rich import box
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    cells = [[visible(cell) for cell in row] for row in rows]
    widest = [max(map(cell_len, (column.title, *(row[at] for row in cells)))) for at, column in enumerate(columns)]
    is_terminal = sys.stdout.isatty()
    widths = _fitted(columns, widest, shutil.get_terminal_size().columns) if is_terminal else widest
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column, width in zip(columns, widths, strict=True):
        justify: Literal["left", "right"] = "right" if column.right else "left"
        table.add_column(Text(column.title), justify=justify, style=column.style, no_wrap=True, overflow="ellipsis", width=width)
    for row in cells:
        # A Text is never parsed as Rich markup, whatever a payload or an error contains.
        table.add_row(*map(Text, row))
    console = Console(file=sys.stdout, highlight=False, width=sum(widths) + _GAP * len(widths))
    with console.capture() as captured:
        console.print(table)
    drawn = captured.get()
    return drawn if is_terminal else "".join(line.rstrip() + "\n" for line in drawn.splitlines())


def _fitted(columns: Sequence[Column], widest: list[int], screen: int) -> list[int]:
    """The width of each column: ids are never cut, even if the line then wraps; flexible columns share what is left."""
    fixed = sum(width for column, width in zip(columns, widest, strict=True) if not column.flexible)
    flexible = sum(column.flexible for column in columns)
    share = max(_LEAST, (screen - fixed - _GAP * len(columns)) // max(1, flexible))
    return [min(width, share) if column.flexible else width for column, width in zip(columns, widest, strict=True)]
