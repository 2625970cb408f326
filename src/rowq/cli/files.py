"""The files that commands read and write; `-` or no name means stdin and stdout."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import IO, NamedTuple, cast

from rowq import InvalidArgument, PayloadTooLarge
from rowq.cli.output import Output
from rowq.cli.terminal import hint

LONGEST_LINE = 512 << 20
_CHUNK = 32 << 10
_MOST_BYTES = 256 << 20


def is_named(file: Path | None) -> bool:
    return file is not None and str(file) != "-"


def stdin() -> BufferedIOBase:
    if sys.stdin is None:
        raise InvalidArgument("there is nothing to read: stdin is closed")
    if sys.stdin.isatty():
        hint("reading what you type; Ctrl-D on a line of its own ends it")
    return cast("BufferedIOBase", sys.stdin.buffer)


def read_stdin() -> bytes:
    return _bounded(stdin().read(_MOST_BYTES + 1))


def read_file(file: Path) -> bytes:
    """A file named by the user that cannot be read is a wrong argument."""
    try:
        with file.open("rb") as source:
            return _bounded(source.read(_MOST_BYTES + 1))
    except OSError as error:
        raise InvalidArgument(f"{file} cannot be read: {error.strerror}") from None


def _bounded(data: bytes) -> bytes:
    if len(data) > _MOST_BYTES:
        raise PayloadTooLarge(f"the payload is over {_MOST_BYTES >> 20} MB, more than any queue takes: send a reference to it instead")
    return data


@contextmanager
def source(file: Path | None) -> Iterator[BufferedIOBase]:
    if file is None or not is_named(file):
        yield stdin()
        return
    with _opened(file, "rb", "read") as opened:
        yield cast("BufferedIOBase", opened)


class Arrival(NamedTuple):
    """Complete lines without their line ends, and whether no more are available for now."""

    lines: list[bytes]
    is_all: bool


def arrivals(source: BufferedIOBase) -> Iterator[Arrival]:
    """The lines of a source as they arrive, so that lines from a slow pipe need not wait for more."""
    pieces: list[bytes] = []
    held = 0
    while held <= LONGEST_LINE and (chunk := source.read1(_CHUNK)):
        first, *others = chunk.split(b"\n")
        pieces.append(first)
        held += len(first)
        if others:
            yield Arrival([b"".join(pieces), *others[:-1]], is_all=len(chunk) < _CHUNK)
            pieces, held = [others[-1]], len(others[-1])
    if held:
        yield Arrival([b"".join(pieces)], is_all=True)


def size_of(source: BufferedIOBase) -> int | None:
    """The length of the source if known in advance: of a file, also one opened by the shell."""
    with contextlib.suppress(OSError):
        found = os.fstat(source.fileno())
        return found.st_size if stat.S_ISREG(found.st_mode) else None
    return None


@contextmanager
def sink(file: Path | None, output: Output) -> Iterator[Callable[[bytes], object]]:
    if file is None or not is_named(file):
        yield output.write
        output.flush()
    elif file.exists() and not file.is_file():
        # A pipe or a device is written directly: renaming a file over it would replace it.
        with _opened(file, "wb", "written") as opened:
            yield opened.write
    else:
        with _whole(file.resolve()) as opened:
            yield opened.write


@contextmanager
def _whole(path: Path) -> Iterator[IO[bytes]]:
    """A file that appears under its name only when all of it is on disk."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with _opened(partial, "xb", "written", path) as opened:
            yield opened
            opened.flush()
            os.fsync(opened.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _opened(file: Path, mode: str, purpose: str, named: Path | None = None) -> IO[bytes]:
    """A file named by the user that cannot be opened is a wrong argument."""
    try:
        opened: IO[bytes] = file.open(mode)
    except OSError as error:
        raise InvalidArgument(f"{named or file} cannot be {purpose}: {error.strerror}") from None
    return opened
