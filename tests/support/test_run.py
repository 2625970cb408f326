"""A run of tests and its servers: all its processes share them, and none is left when it is over, however it ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.architecture.source import ROOT
from tests.support.patience import eventually
from tests.support.servers.process import Process
from tests.support.servers.run import Run
from tests.support.servers.shared import GIVEN

pytestmark = pytest.mark.prove("servers started and ended for their own sake; every test that uses one stands for it")

PLUGINS = ("-p", "tests.conftest", "-p", "xdist.plugin", "-p", "no:cacheprovider")
"""Those that count here; to load all that are installed takes longer than the tests."""

SHARING = """
import os
from dataclasses import asdict
from pathlib import Path
import json
import threading
import pytest
from tests.support.servers import shared_redis
from tests.support.servers.process import Process

@pytest.mark.parametrize("number", [1, 2])
def test_of_a_worker(number):
    server = Process.of(shared_redis().pid)
    report = Path(os.environ["REPORTS"], f"{number}.new")
    report.write_text(json.dumps([os.getpid(), asdict(server)]))
    report.rename(report.with_suffix(".json"))
    while not Path(os.environ["REPORTS"], "go").exists():
        threading.Event().wait(0.01)
"""

RELEASING = """
import os
from pathlib import Path

def pytest_keyboard_interrupt():
    Path(os.environ["REPORTS"], "go").touch()
"""
"""Workers that are in the middle of a test would be waited for."""

MISSING = """
from tests.support.servers import Unavailable
import pytest

@pytest.fixture
def server():
    raise Unavailable("frobnicated is not installed: apt-get install frobnicate")

def test_that_needs_it(server): ...

def test_that_asks_for_it(): raise Unavailable("frobnicated is not installed: apt-get install frobnicate")

def test_that_does_without(): ...
"""


class Nested:
    """A run of its own, on tests that are written for it."""

    def __init__(self, folder: Path, tests: str, *args: str, **environment: str) -> None:
        (folder / "test_nested.py").write_text(tests, encoding="utf-8")
        self.folder = folder
        inherited = {name: value for name, value in os.environ.items() if name not in GIVEN.values()}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *PLUGINS, *args, str(folder)],
            cwd=ROOT,
            env={**inherited, "REPORTS": str(folder), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def reports(self) -> list[tuple[int, Process]]:
        """From both workers: who they are, and the server that they found."""
        paths = [self.folder / "1.json", self.folder / "2.json"]
        eventually(lambda: all(path.exists() for path in paths) or self.process.poll() is not None, within=60)
        if self.process.poll() is not None:
            raise AssertionError(self.output())
        told = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
        return [(pid, Process(**server)) for pid, server in told]

    def output(self) -> str:
        return self.process.communicate(timeout=60)[0]


@pytest.fixture
def nested(tmp_path: Path) -> Iterator[Callable[..., Nested]]:
    started: list[Nested] = []
    heeded = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it, and so would theirs

    def start(tests: str, *args: str, **environment: str) -> Nested:
        started.append(Nested(tmp_path, tests, *args, **environment))
        return started[-1]

    yield start
    for run in started:
        run.process.kill()
        run.process.communicate()
    signal.signal(signal.SIGINT, heeded)


def test_workers_share_a_server_which_ends_with_the_run(nested: Callable[..., Nested], tmp_path: Path) -> None:
    run = nested(SHARING, "-n2")
    (one, server), (other, others_server) = run.reports()
    assert one != other
    assert server == others_server
    assert server.is_running
    (tmp_path / "go").touch()
    assert "2 passed" in run.output()
    assert not server.is_running


def test_a_server_ends_with_a_run_that_is_interrupted(nested: Callable[..., Nested], tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(RELEASING, encoding="utf-8")
    run = nested(SHARING, "-n2")
    (_, server), _ = run.reports()
    os.killpg(run.process.pid, signal.SIGINT)  # as a terminal does, to all who are in the foreground
    assert "KeyboardInterrupt" in run.output()
    assert not server.is_running


def test_the_next_run_ends_the_server_of_one_that_was_killed(nested: Callable[..., Nested]) -> None:
    run = nested(SHARING, "-n2")
    (_, server), _ = run.reports()
    os.killpg(run.process.pid, signal.SIGKILL)
    run.output()
    Run.begin().end()
    eventually(lambda: not server.is_running)  # another run that begins just now may have been first


def test_a_missing_server_is_a_loud_skip(nested: Callable[..., Nested]) -> None:
    output = nested(MISSING, CI="").output()
    assert "1 passed, 2 skipped" in output
    assert "*** 2 tests did not run: frobnicated is not installed: apt-get install frobnicate" in output


def test_a_missing_server_is_a_failure_under_ci(nested: Callable[..., Nested]) -> None:
    output = nested(MISSING, CI="true").output()
    assert "1 failed, 1 passed, 1 error" in output
    assert "frobnicated is not installed: apt-get install frobnicate" in output
