"""Files that may not be written. Permissions mean nothing to root, so the test goes on in a process that is nobody."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import rowq

_NOBODY = 65534

_SCRIPT = """
import os, sys, json
import rowq, sqlite3, encodings.idna
rowq.connect("sqlite:///" + sys.argv[2], upkeep=False).close()  # whatever is imported late is imported now, while we may read it
if os.geteuid() == 0:
    os.setgid({nobody}); os.setuid({nobody})
try:
    with rowq.connect("sqlite:///" + sys.argv[1], upkeep=False) as broker:
        broker.send("q", "x")
    print("sent")
except rowq.RowqError as error:
    print(type(error).__name__, error.code, error)
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that nobody can reach, too: pytest's own are closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="rowq-permissions-"))
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def send_as_nobody(path: Path, warm_up: Path) -> str:
    command = [sys.executable, "-c", _SCRIPT.format(nobody=_NOBODY), str(path), str(warm_up)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def filled(path: Path) -> Path:
    with rowq.connect(f"sqlite:///{path}", upkeep=False) as broker:
        broker.send("q", "before")
    return path


def waiting(path: Path) -> int:
    with rowq.connect(f"sqlite:///{path}", upkeep=False) as broker:
        return broker.stats("q").ready


def test_a_file_that_may_only_be_read(folder: Path, tmp_path: Path) -> None:
    path = filled(folder / "jobs.db")
    path.chmod(0o444)
    folder.chmod(0o777)
    answer = send_as_nobody(path, tmp_path / "warm.db")
    assert answer.startswith("StoreReadOnly store_read_only")
    assert "permissions" in answer
    assert waiting(path) == 1


def test_a_file_in_a_folder_that_may_only_be_read(folder: Path, tmp_path: Path) -> None:
    """The write-ahead log could not be made."""
    path = filled(folder / "jobs.db")
    path.chmod(0o666)
    folder.chmod(0o555)
    answer = send_as_nobody(path, tmp_path / "warm.db")
    assert answer.split()[0] in ("StoreReadOnly", "StoreUnavailable")
    assert "folder" in answer
    folder.chmod(0o755)
    assert waiting(path) == 1


def test_no_file_can_be_made_in_a_folder_that_may_only_be_read(folder: Path, tmp_path: Path) -> None:
    folder.chmod(0o555)
    answer = send_as_nobody(folder / "jobs.db", tmp_path / "warm.db")
    assert answer.startswith("StoreUnavailable store_unavailable")
    assert "permissions" in answer


def test_a_file_that_may_not_be_read(folder: Path, tmp_path: Path) -> None:
    path = filled(folder / "jobs.db")
    path.chmod(0o000)
    answer = send_as_nobody(path, tmp_path / "warm.db")
    assert answer.split()[0] in ("StoreReadOnly", "StoreUnavailable")
    assert "permissions" in answer


def test_nobody_may_send_where_nothing_forbids_it(folder: Path, tmp_path: Path) -> None:
    """So that the tests above are about permissions and nothing else."""
    folder.chmod(0o777)
    assert send_as_nobody(folder / "jobs.db", tmp_path / "warm.db") == "sent"
