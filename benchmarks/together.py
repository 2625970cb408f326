"""Threads, and processes, that work at the same time, turn after turn.

`python -m benchmarks.together MODULE:WORK ARGUMENTS` is such a process: it enters the work, an asynchronous context manager, with arguments
in JSON, and answers a line with a line: told a number, it does a turn of that size and says how many messages it was, and what CPU time the
process has spent since it began. An empty line ends it.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, ExitStack
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Self

import uvloop

from benchmarks.harness import Timing

Worker = Callable[[], int]
"""Does its part of a turn, and tells of how many messages."""

Turning = Callable[[float], Awaitable[int]]
"""What a work gives: it does a turn of that size, and tells of how many messages."""
Work = Callable[..., AbstractAsyncContextManager[Turning]]

_PATIENCE = 30


class Crew:
    """A thread for each worker; they are kept from turn to turn, since starting one is no part of anybody's work."""

    def __init__(self, workers: Sequence[Worker]) -> None:
        self._workers = workers
        self._threads = ThreadPoolExecutor(len(workers))

    def turn(self) -> Timing:
        """From the first beginning to the last end."""
        started = time.perf_counter()
        parts = [self._threads.submit(worker) for worker in self._workers]
        messages = sum(part.result() for part in parts)
        return Timing(time.perf_counter() - started, messages)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._threads.shutdown()


class Processes:
    """A process for each list of arguments, all with the work of that name, `module:function`."""

    def __init__(self, work: str, arguments: Sequence[Sequence[object]]) -> None:
        self._commands = [[sys.executable, "-m", "benchmarks.together", work, json.dumps(each)] for each in arguments]
        self._processes: list[subprocess.Popen[str]] = []
        self._cpu: dict[int, float] = {}
        self._stack = ExitStack()

    def turn(self, size: float, *members: int) -> Timing:
        """Of all, or of some: from the first beginning to the last end."""
        working = [self._processes[member] for member in members] or self._processes
        started = time.perf_counter()
        for process in working:
            assert process.stdin is not None
            process.stdin.write(f"{size}\n")
            process.stdin.flush()
        answers = [_answer(process).split() for process in working]
        took = time.perf_counter() - started
        self._cpu.update({process.pid: float(cpu) for process, (_, cpu) in zip(working, answers, strict=True)})
        return Timing(took, sum(int(messages) for messages, _ in answers))

    def cpu(self) -> float:
        """Seconds that they had spent at the end of their last turns."""
        return sum(self._cpu.values())

    def __enter__(self) -> Self:
        here = Path(__file__).parents[1]
        with ExitStack() as stack:
            for command in self._commands:
                process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=here)
                self._processes.append(stack.enter_context(process))
                stack.callback(process.kill)
            for process in self._processes:
                assert _answer(process) == "ready"
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with self._stack:
            if error is None:
                for process in self._processes:
                    process.communicate("\n", timeout=_PATIENCE)


def shares(total: int, parts: int) -> list[int]:
    """As even as can be."""
    return [total // parts + (part < total % parts) for part in range(parts)]


def _answer(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    assert line, "the process has ended before its time"
    return line


async def _obey(work: Work, arguments: list[object]) -> None:
    async with work(*arguments) as turn:
        print("ready", flush=True)
        while line := (await asyncio.to_thread(sys.stdin.readline)).strip():
            print(await turn(float(line)), time.process_time(), flush=True)


if __name__ == "__main__":
    _module, _, _name = sys.argv[1].partition(":")
    uvloop.run(_obey(getattr(import_module(_module), _name), json.loads(sys.argv[2])))
