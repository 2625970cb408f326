"""One soak: a database, a server, clients; everything sent, received and settled, and all that was kept for a while gone again."""

from __future__ import annotations

import math
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import reduce
from pathlib import Path

import msgspec

import rowq
from benchmarks.machine import facts
from tests.support.patience import eventually
from tests.support.serving import Served
from trust.soak import mixture
from trust.soak.gauge import Gauge
from trust.soak.news import News, Task
from trust.soak.record import Latencies, Plan, Reading, Record
from trust.soak.scene import DATABASES, SECRET, Database, served

SCRATCH = Path(__file__).parents[1] / ".scratch"
EVERY = 1.0
_FAR = 10**12
"""Between the numbers of two clients."""
_SCRAPE = 15.0
"""Seconds between two looks at all queues, as monitoring would look."""
_LAST = 120.0
"""Seconds that what is left may take to go, beyond the time for which it is kept."""
_STAYS = {"rowq_queues", "rowq_counters", "rowq_migrations", "rowq_requests", "rowq_duties"}
"""Tables that may have rows when there are no messages: settings, and answers to sends, which are kept for an hour."""
_SHELLS = {"rowq_history", "rowq_audit"}
"""Where the newest row stays, so that its number is not given out again."""

Told = Callable[[int], None]


def soak(name: str, plan: Plan, folder: Path | None, told: Told) -> Record:
    """`folder`: where the database is put, else beside this package, since the temporary folder of many systems is memory, where a
    commit costs nothing. `told`: how many messages are done by now."""
    folder = folder or SCRATCH
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as room, DATABASES[name](Path(room)) as database, served(database, Path(room)) as server:
        with rowq.connect(server.url, api_key=SECRET, timeout=60) as broker:
            for queue, settings in mixture.settings(plan.kept).items():
                broker.configure(queue, **settings)
            run = _Run(plan, database, server, broker, told)
            run.go()
            left = _left(broker, database, plan.kept)
        news = run.clients.total()
        plan = plan if plan.minutes is None else msgspec.structs.replace(plan, messages=news.sent.count)
        return Record(
            database=name,
            plan=plan,
            began_at=run.began_at,
            seconds=round(run.readings[-1].at, 1),
            machine=facts(Path(room)),
            readings=run.readings,
            latencies=run.latencies.parts(plan.messages),
            sent=news.sent,
            acked=news.acked,
            dead=news.dead,
            stale=news.stale,
            calls=news.calls,
            errors=news.errors,
            left=left,
        )


class _Run:
    def __init__(self, plan: Plan, database: Database, server: Served, broker: rowq.Broker, told: Told) -> None:
        self.began_at = time.time_ns() // 1_000_000
        self.readings: list[Reading] = []
        self.latencies = Latencies()
        self.clients = _Clients(plan, server)
        self._server = server
        self._broker = broker
        self._gauge = Gauge(database, server)
        self._seconds = math.inf if plan.minutes is None else plan.minutes * 60
        self._told = told

    def go(self) -> None:
        began, scraped, pause = time.monotonic(), 0.0, threading.Event()
        with self.clients.running():
            while not self._is_done():
                pause.wait(EVERY)
                at = time.monotonic() - began
                if self.readings and at - self._first_at(at) >= self._seconds:
                    self.clients.end_sending()
                if at - scraped >= _SCRAPE:
                    scraped = at
                    self._broker.queues()
                self._read(at)
        last = self.clients.total()
        self._told(last.acked.count + last.dead.count)

    def _first_at(self, now: float) -> float:
        """When the first message was known to be sent."""
        return next((each.at for each in self.readings if each.done or each.depth), now)

    def _read(self, at: float) -> None:
        if not self._server.is_running:
            raise RuntimeError("the server has ended in the middle of it")
        micros, news = self.clients.take(), self.clients.total()
        done = news.acked.count + news.dead.count
        if not news.has_sent_all:  # the end is another load: nobody sends
            for each in micros:
                self.latencies.add(done, each)
        self.readings.append(self._gauge.read(at, done, news.sent.count))
        self._told(done)

    def _is_done(self) -> bool:
        """All is sent, and the server says that nothing waits; not our own count, which a lost message would keep from the end."""
        if not self.readings or not self.clients.total().has_sent_all:
            return False
        return all(stats.depth == 0 for stats in self._broker.queues())


class _Clients:
    def __init__(self, plan: Plan, server: Served) -> None:
        shares = [plan.messages // plan.clients + (number < plan.messages % plan.clients) for number in range(plan.clients)]
        self._tasks = [
            Task(server.url, SECRET, f"client-{number}", plan.seed, share, number * _FAR, plan.threads, plan.batch, plan.ahead)
            for number, share in enumerate(shares)
        ]
        self._news = [News() for _ in self._tasks]
        self._micros: list[dict[str, list[int]]] = []
        self._lock = threading.Lock()
        self._processes: list[subprocess.Popen[bytes]] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        """They end with it, and what they say last is heard."""
        command = [sys.executable, "-m", "trust.soak.client"]
        here = Path(__file__).parents[2]
        with ExitStack() as stack:
            for _ in self._tasks:
                process = stack.enter_context(subprocess.Popen(command, cwd=here, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
                stack.callback(process.kill)
                self._processes.append(process)
            listening = [threading.Thread(target=self._listen, args=each) for each in enumerate(self._processes)]
            for thread in listening:
                thread.start()
            yield
            for thread, process in zip(listening, self._processes, strict=True):
                assert process.stdin is not None
                process.stdin.close()
                thread.join()
                if process.wait() != 0:
                    raise RuntimeError(f"a client has ended with {process.returncode}")

    def end_sending(self) -> None:
        """Before all is sent; saying it again does no harm."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(b"enough\n")
            process.stdin.flush()

    def take(self) -> list[dict[str, list[int]]]:
        """The latencies since the last time."""
        with self._lock:
            micros, self._micros = self._micros, []
            return micros

    def total(self) -> News:
        with self._lock:
            return reduce(_plus, self._news)

    def _listen(self, number: int, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(msgspec.json.encode(self._tasks[number]) + b"\n")
        process.stdin.flush()
        for line in process.stdout:
            news = msgspec.json.decode(line, type=News)
            with self._lock:
                self._news[number] = news
                self._micros.append(news.micros)


def _plus(one: News, other: News) -> News:
    return News(
        sent=one.sent.plus(other.sent),
        acked=one.acked.plus(other.acked),
        dead=one.dead.plus(other.dead),
        stale=one.stale + other.stale,
        calls=one.calls + other.calls,
        errors=dict(Counter(one.errors) + Counter(other.errors)),
        has_sent_all=one.has_sent_all and other.has_sent_all,
    )


def _left(broker: rowq.Broker, database: Database, kept: float) -> dict[str, int]:
    """Rows that are never removed: maintenance is run at once, instead of within minutes."""
    left: dict[str, int] = {}
    pause = threading.Event()

    def is_empty() -> bool:
        pause.wait(EVERY / 2)  # it counts the rows of all tables
        broker.maintain()
        rows = {table: count for table, count in database.rows().items() if table not in _STAYS}
        left.clear()
        left.update({table: count for table, count in rows.items() if count > (table in _SHELLS)})
        return not left

    try:
        eventually(is_empty, within=kept + _LAST)
    except AssertionError:
        return left
    return {}
