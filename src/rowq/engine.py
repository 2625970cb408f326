"""The parts of a broker, put together around one database and shared by its sync and async faces."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

from rowq.clock import Clock
from rowq.errors import RowqError
from rowq.fusion import Fusion
from rowq.insights import Insights
from rowq.meter import Meter
from rowq.model.queue import Settings
from rowq.steps import Driver
from rowq.store import settling
from rowq.store.calls import Act, Call, Receive
from rowq.store.dialect import Dialect, Finding
from rowq.store.store import Store
from rowq.upkeep import Upkeep
from rowq.verbs import Verbs
from rowq.waiting import WaitingRoom


class Engine:
    def __init__(self, dialect: Dialect, clock: Clock, defaults: Settings, *, actor: str | None, timeout: float, upkeep: bool) -> None:
        self.dialect = dialect
        self.clock = clock
        self.store = Store(dialect, clock, defaults, actor)
        self.insights = Insights(dialect, defaults)
        self.upkeep = Upkeep(dialect, clock, defaults)
        self._fusion = Fusion(self.store.perform, timeout=timeout)
        self._fusion.abandoned = self.give_back
        self._fusion.forked = dialect.leave_to_parent
        self._room = WaitingRoom(clock.now, self.store.times.next, self._look_for_news)
        self.store.on_ready = self._room.wake
        self._news: int | None = None
        self.verbs = Verbs(self.insights, self._room, clock)
        self.driver = Driver(self._fusion, self._room)
        if upkeep:
            self.upkeep.start(self.driver, self._fusion.if_idle)

    @property
    def meter(self) -> Meter | None:
        return self.store.meter

    def attach(self, meter: Meter) -> None:
        """From now on it counts what is committed; at any time, and in any thread."""
        self.store.meter = meter

    @property
    def waiting(self) -> int:
        """How many consumers wait for messages."""
        return self._room.count()

    def ping(self) -> None:
        """Raises an error when the database does not answer."""
        self.check_open()
        with self.dialect.reading() as session:
            session.rows("read_settings_version")

    def examine(self) -> list[Finding]:
        return self.dialect.examine()

    def check_open(self) -> None:
        self._fusion.check_open()

    def close(self) -> None:
        if self._fusion.is_forked:
            return  # its threads and connections are the parent's
        self.upkeep.stop()
        self._fusion.close(self.dialect.close)
        self._room.close()

    def _look_for_news(self) -> int | None:
        """None while somebody writes, or when there is none. After news the settings are not taken on trust."""
        news = self._fusion.if_idle(self.dialect.news)
        if news is not None and news != self._news:
            self._news = news
            self.store.distrust_settings()
        return news

    def give_back(self, call: Call[Any]) -> None:
        """Messages leased to somebody who has gone away without them; not where that could deliver one twice."""
        if isinstance(call, Receive) and call.result:
            threading.Thread(target=self._release, args=(call,), name="rowq-release", daemon=True).start()

    def _release(self, call: Receive) -> None:
        with suppress(RowqError):  # closed meanwhile, or the database is away: the leases will run out
            self._fusion.run(Act(lambda work: settling.release(work, call), durable=False))
