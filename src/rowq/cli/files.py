"""The files that load reads and dump writes; `-` or no name means stdin and stdout."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import IO, NamedTuple, cast

from rowq import InvalidArgument
from rowq.cli import value
from rowq.cli.output import Output

LONGEST_LINE = 512 << 20
_CHUNK = 32 << 10


def is_named(file: Path | None) -> bool:
    return file is not None and str(file) != "-"


@contextmanager
def source(file: Path | None) -> Iterator[BufferedIOBase]:
    if file is None or not is_named(file):
        yield value.stdin()
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
