"""The drive whose plug can be pulled does what it says: otherwise no trial on it proves anything."""

from __future__ import annotations

import os
import random
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.disasters.drive import Drive
from tests.support.patience import eventually

TEXT = b"x" * 10_000


@pytest.fixture
def drive() -> Iterator[Drive]:
    drive = Drive(32)
    yield drive
    drive.remove()


def write(path: Path, *, synced: bool) -> None:
    file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    try:
        os.write(file, TEXT)
        if synced:
            os.fsync(file)
    finally:
        os.close(file)


def cut(drive: Drive) -> None:
    drive.pull_the_plug()
    drive.plug_in()


def test_what_was_synced_is_kept_and_what_was_only_written_is_gone(drive: Drive) -> None:
    write(drive.folder / "synced", synced=True)
    write(drive.folder / "written", synced=False)
    cut(drive)
    assert (drive.folder / "synced").read_bytes() == TEXT
    assert not (drive.folder / "written").exists()


def test_what_reached_the_drive_and_was_not_flushed_is_gone_with_its_cache(drive: Drive) -> None:
    """A file of its own size already, so that nothing else needs to be written; past the system's cache."""
    path = drive.folder / "file"
    path.write_bytes(b"a" * 4096)
    subprocess.run(["sync", "--file-system", str(drive.folder)], check=True, timeout=60)
    command = ["dd", "if=/dev/zero", f"of={path}", "bs=4096", "count=1", "oflag=direct", "conv=notrunc", "status=none"]
    subprocess.run(command, check=True, timeout=60)
    cut(drive)
    assert path.read_bytes() == b"a" * 4096


def test_after_the_cut_nobody_is_told_that_something_is_on_the_disk(drive: Drive) -> None:
    drive.pull_the_plug()
    with pytest.raises(OSError, match=r"Input/output error|Read-only"):
        write(drive.folder / "late", synced=True)
    drive.plug_in()
    assert not (drive.folder / "late").exists()
    write(drive.folder / "later", synced=True)


def test_a_drive_that_leaks_keeps_some_of_what_nobody_waited_for(drive: Drive) -> None:
    path = drive.folder / "file"
    choose = random.Random("leak")
    path.write_bytes(b"a" * 4096 * 512)
    subprocess.run(["sync", "--file-system", str(drive.folder)], check=True, timeout=60)

    def some_pages_got_through() -> bool:
        with path.open("r+b") as file:
            file.write(b"b" * 4096 * 512)
        with drive.leaking(choose):
            threading.Event().wait(0.3)
        cut(drive)
        return 0 < path.read_bytes().count(b"b" * 4096) < 512

    eventually(some_pages_got_through, 60)
