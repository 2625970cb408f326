"""A process that outlives the one that started it, and is known again by its id together with the time of its birth."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from tests.support.patience import eventually

_DETACHED = '"$@" >>"$LOG" 2>&1 </dev/null & echo $!'
"""The shell ends at once, so the server has no parent that would have to reap it, and any process of the run may stop it."""


@dataclass(frozen=True)
class Process:
    pid: int
    born: float
    """A pid is used again after a while: together with this it is not."""

    @classmethod
    def of(cls, pid: int) -> Process:
        """One that has ended already was never born: it is not running."""
        try:
            return cls(pid, psutil.Process(pid).create_time())
        except psutil.NoSuchProcess:
            return cls(pid, 0)

    @classmethod
    def read(cls, path: Path) -> Process | None:
        try:
            return cls(**json.loads(path.read_text(encoding="utf-8")))
        except (FileNotFoundError, ValueError, TypeError):
            return None

    def write(self, path: Path) -> None:
        whole = path.with_suffix(".new")
        whole.write_text(json.dumps(asdict(self)), encoding="utf-8")
        whole.replace(path)

    @property
    def is_running(self) -> bool:
        return self._seen() is not None

    def send(self, signal: int) -> None:
        seen = self._seen()
        if seen is not None:
            with suppress(psutil.NoSuchProcess):
                seen.send_signal(signal)

    def kill(self) -> None:
        """SIGKILL for it and for all that it has started, which would otherwise still work for a moment."""
        seen = self._seen()
        if seen is None:
            return
        with suppress(psutil.NoSuchProcess):
            family = [seen, *seen.children(recursive=True)]
            for one in family:
                with suppress(psutil.NoSuchProcess):
                    one.kill()
            eventually(lambda: not any(_is_alive(one) for one in family))

    def end(self, signal: int, within: float) -> None:
        """Asks it to end, and makes it end when the time is over."""
        self.send(signal)
        try:
            eventually(lambda: not self.is_running, within)
        except AssertionError:
            self.kill()

    def _seen(self) -> Any:
        try:
            found = psutil.Process(self.pid)
            return found if abs(found.create_time() - self.born) < 1 and _is_alive(found) else None
        except psutil.NoSuchProcess:
            return None


def _is_alive(process: Any) -> bool:
    """A zombie is not: where the first process of a container reaps nobody, it stays for ever."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@dataclass(frozen=True)
class Account:
    """Whom a server runs as. Databases refuse to run as root."""

    name: str | None = None
    uid: int = -1
    gid: int = -1

    @classmethod
    def first_of(cls, *names: str) -> Account:
        """For root the first of these users that exists; everybody else runs servers as themselves."""
        if os.geteuid() != 0:
            return cls()
        known = {entry.pw_name: entry for entry in pwd.getpwall()}
        entry = next((known[name] for name in names if name in known), None)
        if entry is None:
            raise LookupError(f"root needs one of the users {', '.join(names)} to run a server as")
        return cls(entry.pw_name, entry.pw_uid, entry.pw_gid)

    def give(self, path: Path) -> None:
        if self.name is not None:
            os.chown(path, self.uid, self.gid)

    def may_enter(self, folder: Path) -> bool:
        return self.can_run("test", "-x", str(folder))

    def can_run(self, *command: str) -> bool:
        try:
            return self.name is None or self.run(command, check=False).returncode == 0
        except PermissionError:
            return False

    def run(self, command: Sequence[str], *, check: bool = True) -> subprocess.CompletedProcess[str]:
        """To its end; what it said is part of the error."""
        done = subprocess.run(
            list(command), check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, **self._identity()
        )
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}")
        return done

    def launch(self, command: Sequence[str], log: Path) -> Process:
        """Detached from this process and from its terminal."""
        shell = ["/bin/sh", "-c", _DETACHED, "sh", *command]
        identity = self._identity({"LOG": str(log)})
        answer = subprocess.run(shell, check=True, stdout=subprocess.PIPE, text=True, start_new_session=True, timeout=60, **identity)
        return Process.of(int(answer.stdout))

    def _identity(self, more: Mapping[str, str] | None = None) -> dict[str, Any]:
        environment = {"PATH": SEARCH_PATH, "LC_ALL": "C", **(more or {})}
        who = {} if self.name is None else {"user": self.uid, "group": self.gid, "extra_groups": []}
        return {"env": environment, "cwd": "/", **who}


SEARCH_PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"])
"""Debian keeps servers where only root's PATH leads."""
