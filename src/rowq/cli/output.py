"""Where results and failures go: text and tables for people, JSON for programs, one line on stderr and an exit code."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple, TypeVar, cast

import typer
from msgspec import Struct

from rowq import InvalidArgument, NotFound, RowqError, ServerUnavailable, StoreBusy, StoreUnavailable, SystemClock
from rowq.cli.text import fields, json_line, visible

FAILED = 1
USAGE = 2
NOTHING = 3
DATABASE = 4
INTERRUPTED = 130
READER_GONE = 141

# Newer releases of Typer bundle their own Click, older ones use the installed one; the class hierarchy is the same.
UsageError = cast("type[Exception]", typer.BadParameter.__bases__[0])

_EXIT_CODES: tuple[tuple[type[RowqError], int], ...] = (
    (InvalidArgument, USAGE),
    (NotFound, NOTHING),
    (StoreBusy, DATABASE),
    (StoreUnavailable, DATABASE),
    (ServerUnavailable, DATABASE),
    (RowqError, FAILED),
)

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


class Failure(Exception):
    """A command's failure: a sentence, a stable code, an exit code, and further facts for --json."""

    def __init__(self, sentence: str, *, code: str = "failed", exit_code: int = FAILED, **facts: Any) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.code = code
        self.exit_code = exit_code
        self.facts = facts


class ReaderGone(Exception):
    """The reader of the output has closed it (`| head`). Not an error, but there is nothing left to do."""


def understand(error: BaseException) -> Failure:
    """Any expected error as a failure."""
    match error:
        case Failure():
            return error
        case RowqError():
            return Failure(str(error), code=error.code, exit_code=exit_code_of(error))
        case KeyboardInterrupt() | typer.Abort():
            return Failure("interrupted", code="interrupted", exit_code=INTERRUPTED)
        case OSError():
            sentence = error.strerror or str(error)
            return Failure(f"{error.filename}: {sentence}" if error.filename else sentence, code="io_error")
        case _:
            return _misused(error)


def exit_code_of(error: RowqError) -> int:
    return next(exit_code for kind, exit_code in _EXIT_CODES if isinstance(error, kind))


def report(failure: Failure, *, json: bool) -> None:
    """Writes the failure to stderr; if stderr is closed, the exit code still tells."""
    if json:
        written = json_line({"code": failure.code, "error": failure.sentence, **failure.facts}).decode()
    else:
        written = f"rowq: {visible(failure.sentence)} [{failure.code}]\n"
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(written)
        sys.stderr.flush()


def give_up_stdout() -> None:
    """Points stdout at the null device; otherwise the interpreter repeats the failed write at exit, and complains."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
        os.close(nothing)


def _misused(error: BaseException) -> Failure:
    sentence = " ".join(str(getattr(error, "format_message", error.__str__)()).split()).removesuffix(".")
    command = getattr(getattr(error, "ctx", None), "command_path", "rowq")
    return Failure(f"{sentence}; see {command} --help", code="usage", exit_code=USAGE)
