"""The run that servers belong to: a folder for all of its processes, from which every server is ended when the run is over."""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from tests.support.servers.process import Process

VARIABLE = "TEST_RUN_OF_ROWQ"
"""Names the folder to the processes that the run starts. Not ROWQ_…: a server that a test starts refuses such a name."""
_PREFIX = "rowq-run-"


class Run:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def begin(cls) -> Run:
        """A new one, owned by this process; what a crashed run has left behind is removed first."""
        _remove_leftovers()
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        folder.chmod(0o711)  # servers of another user must get through
        (folder / "servers").mkdir()
        Process.of(os.getpid()).write(folder / "owner")
        return cls(folder)

    def invite(self) -> Run:
        """Processes that are started from now on take part in it."""
        os.environ[VARIABLE] = str(self.folder)
        return self

    @contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """One process of the run at a time."""
        with (self.folder / f"{name}.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def place(self) -> Path:
        """A folder with a short path, since that of a socket may have a hundred letters only."""
        place = Path(tempfile.mkdtemp(prefix="", dir=self.folder))
        place.chmod(0o711)
        return place

    def enter(self, process: Process, signal: int) -> None:
        """From now on the run ends this process when it is over."""
        process.write(self.folder / "servers" / f"{process.pid}.{signal}")

    def leave(self, process: Process) -> None:
        for entry in (self.folder / "servers").glob(f"{process.pid}.*"):
            entry.unlink(missing_ok=True)

    def end(self) -> None:
        """Asks every server to end, then waits for each."""
        entered = [(Process.read(entry), int(entry.suffix[1:])) for entry in (self.folder / "servers").glob("*.[0-9]*")]
        for process, signal in entered:
            if process is not None:
                process.send(signal)
        for process, signal in entered:
            if process is not None:
                process.end(signal, within=10)
        shutil.rmtree(self.folder, ignore_errors=True)
        if os.environ.get(VARIABLE) == str(self.folder):
            del os.environ[VARIABLE]


@cache
def current_run() -> Run:
    """The one that this process was started in; else one of its own, which ends with it."""
    folder = os.environ.get(VARIABLE)
    if folder and Path(folder, "owner").exists():
        return Run(Path(folder))
    run = Run.begin().invite()
    owner = os.getpid()
    atexit.register(lambda: run.end() if os.getpid() == owner else None)  # not by a child that was forked
    return run


def _remove_leftovers() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(FileNotFoundError):  # another run that begins is doing the same
            owner = Process.read(folder / "owner") if folder.stat().st_uid == os.geteuid() else None
            if owner is not None and not owner.is_running:
                Run(folder).end()
