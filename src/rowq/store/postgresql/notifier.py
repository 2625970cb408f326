"""Notifies other processes with NOTIFY, in transactions of its own: a commit that contains a NOTIFY waits for all others that do.

Two threads with a connection each, started when first needed: one sends collected notifications, one listens. Behind a pooler that gives
each transaction another backend nothing arrives; a probe to itself shows whether notifications arrive.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable

import msgspec
import psycopg

from rowq.clock import running
from rowq.errors import RowqError
from rowq.store.notify.notifier import Notification, Notifier
from rowq.store.postgresql.connection import PostgresqlConnections
from rowq.store.postgresql.session import PostgresqlQueries

_log = logging.getLogger("rowq.notify")

_PAUSE = 0.02
"""Seconds between two notifications of one process: what comes meanwhile is sent together."""
_MOST_BYTES = 7_900
"""PostgreSQL's limit is 8,000."""
_PROBE_EVERY = 15.0
_LOOK_UP_EVERY = 1.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0


class PostgresqlNotifier(Notifier):
    def __init__(self, connections: PostgresqlConnections, queries: PostgresqlQueries, channel: str) -> None:
        super().__init__()
        self._connections = connections
        self._queries = queries
        self._channel = channel
        self._hear: Callable[[Notification], None] = lambda notification: None
        self._box = Notification()
        self._changed = threading.Condition()
        self._is_closed = threading.Event()
        self._is_probing = False
        self._heard_at: float | None = None
        self._teller: threading.Thread | None = None
        self._listener: threading.Thread | None = None
        self._listening: psycopg.Connection[tuple[object, ...]] | None = None

    def listen(self, hear: Callable[[Notification], None]) -> None:
        """Listening starts with the first call of `is_heard`: a process that never waits needs no connection for it."""
        self._hear = hear

    def tell(self, notification: Notification) -> None:
        with self._changed:
            if self._is_closed.is_set():
                return
            self._box.add(notification)
            self._start_telling()
            self._changed.notify()

    def is_heard(self) -> bool:
        with self._changed:
            if self._listener is None and not self._is_closed.is_set():
                self._listener = threading.Thread(target=self._listen_on, name="rowq-notifier-listening", daemon=True)
                self._listener.start()
        return self._heard_at is not None

    def leave_to_parent(self) -> None:
        self._is_closed.set()
        self._changed = threading.Condition()
        if self._listening is not None:
            _inherited.append(self._listening)

    def close(self) -> None:
        """Sends pending notifications first: a program that sends and exits should still wake waiting consumers.

        The listener is woken by a notification, because canceling an idle connection does not wake it.
        """
        with self._changed:
            self._is_closed.set()
            if self._listener is not None:
                self._is_probing = True
                self._start_telling()
            self._changed.notify_all()
        if self._teller is not None:
            self._teller.join(timeout=2)
        if self._listener is not None:
            self._listener.join(timeout=2)

    def _start_telling(self) -> None:
        if self._teller is None:
            self._teller = threading.Thread(target=self._tell_on, name="rowq-notifier-telling", daemon=True)
            self._teller.start()

    def _tell_on(self) -> None:
        connection: psycopg.Connection[tuple[object, ...]] | None = None
        pause = _FIRST_PAUSE
        while True:
            with self._changed:
                while not self._has_word() and not self._is_closed.is_set():
                    self._changed.wait()
                if not self._has_word():
                    break
                notification, self._box = self._box, Notification()
                is_probing, self._is_probing = self._is_probing, False
            try:
                connection = connection or self._connections.open_plain()
                for payload in self._payloads(notification, is_probing):
                    connection.execute(self._queries.of_one("notify").driver_text, {"channel": self._channel, "payload": payload})
                pause = _FIRST_PAUSE
            except (psycopg.Error, RowqError):
                connection = None  # a lost hint is harmless: waiting receives poll once a second
                self._is_closed.wait(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
            self._is_closed.wait(_PAUSE)
        if connection is not None:
            connection.close()

    def _has_word(self) -> bool:
        return bool(self._box.ready or self._box.settings or self._is_probing)

    def _payloads(self, notification: Notification, is_probing: bool) -> list[str]:
        """As many payloads as needed to stay below PostgreSQL's limit."""
        topics = list(notification.ready.items())
        payloads = [_write(self.me, Notification({}, notification.settings))] if is_probing or notification.settings or not topics else []
        size = len(topics)
        while topics:
            payload = _write(self.me, Notification(dict(topics[:size])))
            if len(payload.encode()) > _MOST_BYTES and size > 1:
                size = (size + 1) // 2
                continue
            payloads.append(payload)
            topics = topics[size:]
        return payloads

    def _listen_on(self) -> None:
        pause, was_heard = _FIRST_PAUSE, False
        while not self._is_closed.is_set():
            try:
                with self._connections.open_plain() as connection:
                    self._listening = connection
                    connection.execute(f'LISTEN "{self._channel}"')
                    was_heard, pause = self._receive(connection, was_heard), _FIRST_PAUSE
            except (psycopg.Error, RowqError) as error:
                if self._heard_at is not None and not self._is_closed.is_set():
                    _log.warning("no notifications for now, waiting receives poll once a second instead: %s", error)
            self._heard_at = None
            self._is_closed.wait(pause * (0.5 + random.random()))
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _receive(self, connection: psycopg.Connection[tuple[object, ...]], was_heard: bool) -> bool:
        probed_at = None
        while not self._is_closed.is_set():
            if probed_at is None or running() - probed_at > _PROBE_EVERY:
                if probed_at is not None and (self._heard_at is None or self._heard_at < probed_at):
                    self._heard_at = None
                probed_at = running()
                self._probe()
            for arrived in connection.notifies(timeout=_LOOK_UP_EVERY):
                self._take(arrived.payload)
                was_heard = True
                if self._is_closed.is_set():
                    break
        return was_heard

    def _probe(self) -> None:
        with self._changed:
            self._is_probing = True
            self._start_telling()
            self._changed.notify()

    def _take(self, payload: str) -> None:
        self._heard_at = running()
        try:
            sender, notification = _read(payload)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return  # from another release or another program
        if sender != self.me:
            self._hear(notification)


_read = msgspec.json.Decoder(tuple[str, Notification]).decode

_inherited: list[psycopg.Connection[tuple[object, ...]]] = []
"""Connections inherited by a forked child: closing them would end the parent's sessions."""


def _write(sender: str, notification: Notification) -> str:
    return msgspec.json.encode((sender, notification)).decode()
