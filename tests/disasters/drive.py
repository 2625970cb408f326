"""A drive whose plug can be pulled: what was not flushed to it is gone, be it in the system's cache or in the drive's own.

It is an ext4 in a file on another ext4. What programs write stays in the cache of the inner one; what that hands to the drive stays in the
cache of the outer one; and only what somebody has waited for, by fsync, goes through both. The plug is the outer one's own emergency
stop (EXT4_IOC_SHUTDOWN, made for such trials): from one moment to the next nothing more gets through, whatever is still on its way.
"""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import struct
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from tests.support.disk import require_root, run
from tests.support.patience import eventually

_SHUTDOWN, _WITHOUT_FLUSHING = 0x8004587D, 2
_MEGABYTE = 1 << 20
_JOURNAL = 16
"""Megabytes that the outer one needs for itself, and some more."""
_PAGE = 4096
_PREFIX = "rowq-drive-"


class Drive:
    """Mounted at `folder`, with power on."""

    def __init__(self, megabytes: int = 256) -> None:
        require_root()
        _remove_leftovers()
        self._place = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=_memory()))
        self._place.chmod(0o711)
        self._platter = self._place / "platter"
        self._case = self._place / "case"
        self._image = self._case / "drive"
        self.folder = self._place / "disk"
        self._mounted: list[Path] = []
        try:
            self._make(megabytes)
        except BaseException:
            self.remove()
            raise

    def pull_the_plug(self) -> None:
        case = os.open(self._case, os.O_RDONLY)
        try:
            fcntl.ioctl(case, _SHUTDOWN, struct.pack("I", _WITHOUT_FLUSHING))
        finally:
            os.close(case)

    def plug_in(self) -> None:
        """The machine starts again: both journals are replayed. Whoever had a file open there must have ended."""
        self._unmount()
        self._mount(self._platter, self._case)
        self._mount(self._image, self.folder)

    @contextmanager
    def leaking(self, choose: random.Random) -> Iterator[None]:
        """Meanwhile bits of what nobody has waited for get through as well, in whatever order: neither system nor drive keeps one."""
        stop = threading.Event()

        def leak() -> None:
            while not stop.wait(choose.random() * 0.02):
                with suppress(OSError):  # the plug is pulled, or a folder is just being removed
                    for path in [self._image, *self.folder.rglob("*")]:
                        if choose.random() < 0.3:
                            _write_back_some(path, choose)

        thread = threading.Thread(target=leak)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def remove(self) -> None:
        self._unmount()
        shutil.rmtree(self._place)

    def _make(self, megabytes: int) -> None:
        self._case.mkdir()
        self.folder.mkdir()
        self._platter.touch()
        os.truncate(self._platter, (megabytes + megabytes // 8 + _JOURNAL) * _MEGABYTE)
        run("mkfs.ext4", "-q", "-F", "-m", "0", str(self._platter))
        self._mount(self._platter, self._case)
        with self._image.open("wb") as image:
            for _ in range(megabytes):
                image.write(bytes(_MEGABYTE))
            os.fsync(image.fileno())  # every block has its place from now on: a page that gets through needs nothing else
        run("mkfs.ext4", "-q", "-F", "-m", "0", str(self._image))
        self._mount(self._image, self.folder)
        self.folder.chmod(0o755)

    def _mount(self, image: Path, folder: Path) -> None:
        run("mount", "-o", "loop", str(image), str(folder))
        self._mounted.append(folder)

    def _unmount(self) -> None:
        while self._mounted:
            eventually(lambda: _is_unmounted(self._mounted[-1]))
            self._mounted.pop()


def _write_back_some(path: Path, choose: random.Random) -> None:
    """Linux begins to write the changed pages of a range that somebody says he needs no more."""
    with suppress(OSError):  # it has been removed, or is no file
        file = os.open(path, os.O_RDONLY)
        try:
            pages = os.fstat(file).st_size // _PAGE + 1
            some = choose.randint(1, max(16, pages // 16))
            os.posix_fadvise(file, choose.randrange(pages) * _PAGE, some * _PAGE, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(file)


def _is_unmounted(folder: Path) -> bool:
    """Linux gives back what a killed process had asked of a disk a little after the process is gone."""
    done = subprocess.run(["umount", str(folder)], check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 or "busy" in done.stderr, done.stderr
    return done.returncode == 0


def _remove_leftovers() -> None:
    """Of processes that were killed before they could."""
    for place in Path(_memory() or tempfile.gettempdir()).glob(f"{_PREFIX}*-*"):
        if not psutil.pid_exists(int(place.name.removeprefix(_PREFIX).partition("-")[0])):
            for folder in ("disk", "case"):
                subprocess.run(["umount", "--lazy", str(place / folder)], check=False, capture_output=True, timeout=60)
            shutil.rmtree(place, ignore_errors=True)


def _memory() -> str | None:
    """Where a file that is synced costs nothing; None is the usual place."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108  # a folder with a random name in it
