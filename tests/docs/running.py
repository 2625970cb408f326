"""Runs the blocks of a page one after another: Python and plain commands of `rowq` in this process, all others in a shell that finds it."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.cli.driver import Run as CommandLine
from tests.docs.page import Block, Page
from tests.docs.ports import Ports

PYTHON, CONSOLE, OUTPUT, SHELL, DRAWING = "python", "console", "text", "sh", ""
KNOWN = {PYTHON, CONSOLE, OUTPUT, SHELL, DRAWING, "json"}
_PROMPT = "$ "
_EXPORT = re.compile(r"export (\w+)=(\S*)")
_BACKGROUND = re.compile(r"(?<![&>])&(?![&>0-9])")
_SHELLS_OWN = re.compile(r"[|&;<>()$`\\*?#~=!{}\[\]]")
"""What a shell does something with: a line without any of it is a program and its arguments."""
_FILE = re.compile(r"# (\w+\.py)\n")
"""The first line of a program that the reader saves; its page runs it by a command line."""


@dataclass(frozen=True)
class Printed:
    """What a block printed, what its page shows, and where."""

    where: str
    printed: str
    shown: str


class Run:
    """One page on its way from top to bottom. Its Python blocks share their names, its command lines what they `export`."""

    def __init__(self, page: Page) -> None:
        self._ports = Ports(page)
        self._page = self._ports.page
        self._names: dict[str, Any] = {"__name__": "__main__"}
        self._environment = {**os.environ, "NO_COLOR": "1", "PYTHONUTF8": "1", "PYTHONUNBUFFERED": "1"}
        self._groups: list[int] = []
        """What the page left in the background: it ends with the page, also with one that fails in the middle."""

    def results(self) -> Iterator[Printed]:
        try:
            for result in self._results():
                yield replace(result, printed=self._ports.back(result.printed), shown=self._ports.back(result.shown))
        finally:
            for group in self._groups:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(group, signal.SIGKILL)

    def _results(self) -> Iterator[Printed]:
        for block, following in zip(self._page.blocks, [*self._page.blocks[1:], None], strict=True):
            if block.info == PYTHON:
                shown = following.text if following is not None and following.info == OUTPUT else ""
                yield Printed(f"{self._page.path}:{block.line}", self._python(block), shown)
            elif block.info == CONSOLE:
                yield from self._console(block)

    def _python(self, block: Block) -> str:
        if file := _FILE.match(block.text):
            Path(file[1]).write_text(block.text, encoding="utf-8")
            return ""
        # Blank lines in front, so that an error names the line of the page.
        code = compile("\n" * (block.line - 1) + block.text, self._page.path, "exec", dont_inherit=True)  # nor our `annotations`
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(code, self._names)  # noqa: S102  # the documents are ours
        return output.getvalue()

    def _console(self, block: Block) -> Iterator[Printed]:
        """Each line with a prompt ends well; the lines below it, if there are any, are what it prints, stderr included."""
        for line, command, shown in commands(block):
            where = f"{self._page.path}:{line}"
            if exported := _EXPORT.fullmatch(command):
                self._environment[exported[1]] = exported[2]
                continue
            if (printed := self._in_this_process(command)) is not None:
                yield Printed(where, printed, shown or printed)
                continue
            process = subprocess.Popen(
                ["sh", "-c", command],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            if _BACKGROUND.search(command):
                self._groups.append(process.pid)
            with process:
                printed = process.communicate(timeout=200)[0].decode()
            assert process.returncode == 0, f"{where}: `{command}` ended with {process.returncode}:\n{printed}"
            yield Printed(where, printed, shown or printed)

    def _in_this_process(self, command: str) -> str | None:
        """What a command of `rowq` prints, without the half second that a process takes; None where a shell has something to do."""
        if not command.startswith("rowq ") or " pipeline " in command or _SHELLS_OWN.search(command):
            return None  # Spark would be started here, in the process of other tests
        with pytest.MonkeyPatch.context() as patch:
            for name in os.environ.keys() - self._environment.keys():
                patch.delenv(name)
            for name, value in self._environment.items():
                patch.setenv(name, value)
            result = CommandLine(patch)(*shlex.split(command)[1:])
        assert result.exit_code == 0, f"`{command}` ended with {result.exit_code}:\n{result.out}{result.err}"
        return result.out + result.err


def commands(block: Block) -> list[tuple[int, str, str]]:
    """(line, command, what is shown below it); without a prompt at the beginning there is nothing to run, which is an error."""
    found: list[tuple[int, str, str]] = []
    for number, line in enumerate(block.text.splitlines(), block.line):
        if line.startswith(_PROMPT):
            found.append((number, line.removeprefix(_PROMPT), ""))
        elif found:
            at, command, shown = found[-1]
            found[-1] = (at, command, f"{shown}{line}\n")
        else:
            raise ValueError(f"line {number}: a console block begins with a command, after `{_PROMPT}`")
    return found


def install_commands(folder: Path) -> Path:
    """A folder with the `rowq` and the `python` that are under test, to be put at the front of PATH."""
    folder.mkdir()
    for name, arguments in (("rowq", "-m rowq.cli.main"), ("python", "")):
        command = folder / name
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n', encoding="utf-8")
        command.chmod(0o755)
    return folder
