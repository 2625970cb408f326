"""A disk of its own, small or large, which a test may fill: a file system in memory, or in a file, that only root may mount."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.support.servers.server import Unavailable

_WORKS = "a file system of its own needs root, who may mount one"
_ROOM_AT_ONCE = 1 << 30


class SmallDisk:
    """In memory, and of a few megabytes; it can grow."""

    def __init__(self, folder: Path, size: str = "24m") -> None:
        self.folder = folder
        require_root()
        folder.mkdir(mode=0o755)
        run("mount", "-t", "tmpfs", "-o", f"size={size},mode=0755", "tmpfs", str(folder))

    def grow(self, size: str = "96m") -> None:
        run("mount", "-o", f"remount,size={size}", str(self.folder))

    def remove(self) -> None:
        _unmount(self.folder)


class FillableDisk:
    """ext4 in a file: writes are synced, and it is full whenever one likes, however large it is."""

    def __init__(self, folder: Path, image: Path, gigabytes: int = 16) -> None:
        self.folder = folder
        self._image = image
        self._ballast = folder / "ballast"
        require_root()
        folder.mkdir(mode=0o755, exist_ok=True)
        image.touch()
        os.truncate(image, gigabytes << 30)
        run("mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=1,lazy_journal_init=1", str(image))
        try:
            run("mount", "-o", "loop", str(image), str(folder))
            (folder / "lost+found").rmdir()  # MariaDB takes every folder for something of its own
        except BaseException:
            if folder.is_mount():
                self.remove()
            raise

    @property
    def free(self) -> int:
        """Bytes that anybody may still write."""
        state = os.statvfs(self.folder)
        return state.f_bavail * state.f_frsize

    def fill(self) -> None:
        """To the last block, as quickly as others free some; what is written there is nothing."""
        with self._ballast.open("ab") as file:
            step = _ROOM_AT_ONCE
            while step >= 4096:
                try:
                    os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), step)
                except OSError:
                    step //= 2

    def free_up(self) -> None:
        self._ballast.unlink(missing_ok=True)

    def remove(self) -> None:
        _unmount(self.folder)
        self._image.unlink(missing_ok=True)


def require_root() -> None:
    if os.geteuid() != 0:
        raise Unavailable(_WORKS)


def run(*command: str) -> None:
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    except FileNotFoundError as missing:
        raise Unavailable(f"{command[0]} is not installed: {_WORKS}") from missing
    if done.returncode:
        raise Unavailable(f"{_WORKS} [{done.stderr.strip()}]")


def _unmount(folder: Path) -> None:
    subprocess.run(["umount", "--lazy", str(folder)], check=True, timeout=60)
