"""Running the command line: in this process for speed, in one of its own where pipes, signals or memory matter."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec
import pytest
import typer

from rowq.cli.main import main

_command = cache(typer.main.get_command)
"""The commands are put together once, and not for each run: that takes longer than most of them."""


@dataclass(frozen=True)
class Result:
    exit_code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one document that was printed."""
        return msgspec.json.decode(self.out)

    @property
    def lines(self) -> list[Any]:
        """The JSON Lines that were printed."""
        return [msgspec.json.decode(line) for line in self.out.splitlines()]

    @property
    def error(self) -> Any:
        """The JSON document on stderr."""
        return msgspec.json.decode(self.err)


class Terminal(io.BytesIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


class Run:
    """`run("send", "q", "1", stdin=b"…")`, in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def __call__(self, *args: str, stdin: bytes = b"", terminal: bool = False) -> Result:
        stream = Terminal if terminal else io.BytesIO
        out, err = stream(), stream()
        with self._monkeypatch.context() as patch:
            patch.setattr(typer.main, "get_command", _command)
            patch.setattr(sys, "stdin", io.TextIOWrapper(stream(stdin)))
            patch.setattr(sys, "stdout", io.TextIOWrapper(out, encoding="utf-8"))
            patch.setattr(sys, "stderr", io.TextIOWrapper(err, encoding="utf-8"))
            exit_code = main(args)
            sys.stderr.flush()
            return Result(exit_code, out.getvalue().decode(), err.getvalue().decode())


class Spawn:
    """The command line as a process; `code` replaces how it is started. What is still open or running when the test ends is ended."""

    def __init__(self) -> None:
        self._processes = ExitStack()

    def __call__(self, *args: str, code: str | None = None, **options: Any) -> subprocess.Popen[bytes]:
        started = code or "import sys; from rowq.cli.main import main; sys.exit(main())"
        # Unbuffered output would hide what a closed pipe does to a buffer.
        environment = {name: text for name, text in os.environ.items() if name != "PYTHONUNBUFFERED"}
        process = self._processes.enter_context(subprocess.Popen([sys.executable, "-c", started, *args], env=environment, **options))
        self._processes.callback(process.kill)
        return process

    def close(self) -> None:
        self._processes.close()


def told(process: subprocess.Popen[bytes]) -> bytes:
    """All that it writes to stderr, until it ends."""
    assert process.stderr is not None
    return process.stderr.read()
