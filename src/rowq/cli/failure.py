"""How a command ends when it fails: exit codes, and one line on stderr."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any, cast

import typer

from rowq import InvalidArgument, NotFound, RowqError, ServerUnavailable, StoreBusy, StoreUnavailable
from rowq.cli.text import json_line, visible

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
