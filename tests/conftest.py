"""What holds for every test: how long Hypothesis searches, that slowness alone is no failure (pytest-timeout guards that), servers, and
the fixtures that many folders need. A folder that needs another one of the same name has its own."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from rowq import ManualClock
from rowq.engine import group_commit
from tests.support.blocking import LoopThread
from tests.support.cover import cover, is_short
from tests.support.database import KINDS, Database, new_database
from tests.support.memory import keep_temporary_files_in_memory
from tests.support.servers.pool import close_pools, give_back_all
from tests.support.servers.run import Run
from tests.support.servers.server import Unavailable
from tests.support.timing import closing_line, write_times

settings.register_profile("quick", deadline=None, print_blob=True)
settings.register_profile("thorough", deadline=None, print_blob=True, max_examples=2_000)
settings.load_profile(os.environ.get("ROWQ_HYPOTHESIS", "quick"))

WITH_JAVA = ("spark", "pipeline")
_MISSING = "not available here: "
_STARTED = pytest.StashKey[float]()


def pytest_configure(config: pytest.Config) -> None:
    """The process that was started by hand owns the run; its workers, which inherit its environment, take part in it."""
    if not hasattr(config, "workerinput"):
        config.stash[_STARTED] = time.monotonic()
        if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # begun in the background by a shell: the tests' own processes must hear it
            signal.signal(signal.SIGINT, signal.default_int_handler)
        keep_temporary_files_in_memory()
        config.add_cleanup(Run.begin().invite().end)
    config.add_cleanup(close_pools)  # the last to be added is the first to be called


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Module | pytest.Class, obj: object) -> Generator[None, object, object]:
    """What `make test` leaves out gets no cases there: schemathesis alone took a third of the time of collecting for its own."""
    made = yield
    is_left_out = is_short(collector.config) and any(mark.name == "prove" for mark in getattr(obj, "pytestmark", ()))
    return [] if is_left_out else made


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What starts Java comes first: the worker that begins with it keeps it, and the others take over what lies behind it, so that few
    JVMs are started, and none at the end, when a worker would have to wait for another."""
    for item in items:
        for marker in item.iter_markers("prove"):
            if len(marker.args) != 1 or not isinstance(marker.args[0], str):
                raise pytest.UsageError(f"{item.nodeid}: @pytest.mark.prove takes the reason why the test is not in `make test`")
    for parameter in {marker.args[0] for item in items for marker in item.iter_markers("one_of")}:
        cover([item for item in items if any(marker.args == (parameter,) for marker in item.iter_markers("one_of"))], parameter)
    items.sort(key=lambda item: item.path.parent.name not in WITH_JAVA)
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(600))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    yield from _without_a_server()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    yield from _without_a_server()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    try:
        yield
    finally:
        give_back_all()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A skip is easily overlooked: whatever was not there is told once more, at the end."""
    skips = [str(report.longrepr[-1]) for report in terminalreporter.getreports("skipped") if isinstance(report.longrepr, tuple)]
    missing = [skip.partition(_MISSING)[2] for skip in skips if _MISSING in skip]
    for reason, tests in Counter(missing).items():
        terminalreporter.write_line(f"*** {tests} test{'s' * (tests > 1)} did not run: {reason}", red=True, bold=True)
    write_times(terminalreporter)


def pytest_unconfigure(config: pytest.Config) -> None:
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and _STARTED in config.stash and not config.option.collectonly:
        terminal.write_line(closing_line(terminal, time.monotonic() - config.stash[_STARTED]), bold=True)


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    """One of every kind."""
    return new_database(request.param, tmp_path)


@pytest.fixture(autouse=True)
def answers_stay_fresh(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A receive whose answer took over a quarter of its lease is not given to the caller, by the machine's clock: a machine that stands
    still for a moment would change what a test sees. tests/disasters, which holds that promise, goes by the true clock."""
    if "disasters" not in request.path.parts:
        monkeypatch.setattr(group_commit, "running", lambda: 0.0)


@pytest.fixture
def clock() -> ManualClock:
    """Which only the test moves."""
    return ManualClock()


@pytest.fixture(scope="session")
def loop() -> Iterator[LoopThread]:
    """Where servers and event loops of tests run."""
    thread = LoopThread()
    yield thread
    thread.stop()


def _without_a_server() -> Generator[None]:
    """A test whose server cannot be had is skipped on a user's machine; where CI=true it fails."""
    try:
        yield
    except Unavailable as missing:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{missing}", pytrace=False)
        pytest.skip(f"{_MISSING}{missing}")
