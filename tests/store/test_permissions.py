"""Files that may not be written. Permissions mean nothing to root, so the test goes on in a process that is nobody."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import rowq

_NOBODY = 65534

_SCRIPT = """
import os, sys, json
import rowq, sqlite3, encodings.idna
with rowq.connect("sqlite:///" + sys.argv[2], maintenance=False) as broker:
    broker.send("q", "x")  # what rowq imports late of other packages is imported now, while this process may read it
if os.geteuid() == 0:
    os.setgid({nobody}); os.setuid({nobody})
try:
    with rowq.connect("sqlite:///" + sys.argv[1], maintenance=False) as broker:
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


@pytest.fixture(scope="module")
def source() -> Iterator[Path]:
    """A copy of rowq that the other user can read, with its SQL: the checkout may lie in a folder that only its owner can enter."""
    folder = Path(tempfile.mkdtemp(prefix="rowq-source-"))
    shutil.copytree(Path(rowq.__file__).parent, folder / "rowq")
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    yield folder
    shutil.rmtree(folder)


SendAsNobody = Callable[[Path], str]


@pytest.fixture
def send_as_nobody(source: Path, tmp_path: Path) -> SendAsNobody:
    return lambda path: _send_as_nobody(path, tmp_path / "warm.db", source)


def _send_as_nobody(path: Path, warm_up: Path, source: Path) -> str:
    command = [sys.executable, "-c", _SCRIPT.format(nobody=_NOBODY), str(path), str(warm_up)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(source), *filter(None, sys.path)])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def filled(path: Path) -> Path:
    with rowq.connect(f"sqlite:///{path}", maintenance=False) as broker:
        broker.send("q", "before")
    return path


def waiting(path: Path) -> int:
    with rowq.connect(f"sqlite:///{path}", maintenance=False) as broker:
        return broker.stats("q").ready


def test_a_file_that_may_only_be_read(folder: Path, send_as_nobody: SendAsNobody) -> None:
    path = filled(folder / "jobs.db")
    path.chmod(0o444)
    folder.chmod(0o777)
    answer = send_as_nobody(path)
    assert answer.startswith("StoreReadOnly store_read_only")
    assert "permissions" in answer
    assert waiting(path) == 1


def test_a_file_in_a_folder_that_may_only_be_read(folder: Path, send_as_nobody: SendAsNobody) -> None:
    """The write-ahead log could not be made."""
    path = filled(folder / "jobs.db")
    path.chmod(0o666)
    folder.chmod(0o555)
    answer = send_as_nobody(path)
    assert answer.split()[0] in ("StoreReadOnly", "StoreUnavailable")
    assert "folder" in answer
    folder.chmod(0o755)
    assert waiting(path) == 1


def test_no_file_can_be_made_in_a_folder_that_may_only_be_read(folder: Path, send_as_nobody: SendAsNobody) -> None:
    folder.chmod(0o555)
    answer = send_as_nobody(folder / "jobs.db")
    assert answer.startswith("StoreUnavailable store_unavailable")
    assert "permissions" in answer


def test_a_file_that_may_not_be_read(folder: Path, send_as_nobody: SendAsNobody) -> None:
    path = filled(folder / "jobs.db")
    path.chmod(0o000)
    answer = send_as_nobody(path)
    assert answer.split()[0] in ("StoreReadOnly", "StoreUnavailable")
    assert "permissions" in answer


def test_nobody_may_send_where_nothing_forbids_it(folder: Path, send_as_nobody: SendAsNobody) -> None:
    """So that the tests above are about permissions and nothing else."""
    folder.chmod(0o777)
    assert send_as_nobody(folder / "jobs.db") == "sent"
