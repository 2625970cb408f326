"""A process that takes part: it is started, stopped for a while, killed, or told to end, and what it complained of is kept."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]
_PATIENCE = 60.0


class Actor:
    """Its complaints go to `folder/NAME.err`."""

    def __init__(self, name: str, folder: Path, module: str, *arguments: str, **variables: str) -> None:
        self.name = name
        self._was_told = False
        self._complaints = folder / f"{name}.err"
        with self._complaints.open("ab") as complaints:
            command = [sys.executable, "-m", module, *arguments]
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, **variables},
                stdin=subprocess.DEVNULL,
                stdout=complaints,
                stderr=complaints,
                start_new_session=True,  # Ctrl-C is for the run, which tells everybody
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    @property
    def complaint(self) -> str:
        return self._complaints.read_text(encoding="utf-8", errors="replace")

    def kill(self) -> None:
        """kill -9, and gone."""
        self._process.kill()
        self._process.wait(_PATIENCE)

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def stand_still(self) -> None:
        self.signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.signal(signal.SIGCONT)

    def tell_to_end(self) -> None:
        """Once: a second word, when Python itself is ending, would be its death."""
        if not self._was_told:
            self._was_told = True
            self._process.terminate()

    def end(self) -> int:
        """In good order; its exit code, or that of a kill where it took too long."""
        self.tell_to_end()
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(_PATIENCE)
        self.kill()
        return -signal.SIGKILL
