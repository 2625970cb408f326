"""Redis as a notifier: notifications are published on the database's channel and received from it, with a thread for each direction.

While Redis is unreachable no call waits or fails: notifications are collected, up to a limit, and sent when Redis is back.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from rowq.store.notify.notifier import Notification, Notifier
from rowq.store.notify.redis_connection import RedisAway, RedisConnection

GATHER = 0.003
"""Seconds between two publications. A lone hint is sent at once."""
MAX_TOPICS = 1_000
TIMEOUT = 2.0
SILENCE = 5.0
"""Seconds of silence after which the listener pings Redis."""
FAREWELL = 0.5
"""Seconds that closing waits for the last publication."""
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0

_FORMAT = b"\x01"
"""The first byte of a publication. A listener ignores formats that it does not know."""

_log = logging.getLogger("rowq.redis")
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(tuple[str, Notification])


class RedisNotifier(Notifier):
    """`namespace` identifies the database, so that many databases can share one Redis."""

    def __init__(self, url: str, namespace: str) -> None:
        super().__init__()
        channel = f"rowq:{namespace}"
        self._outage = _Outage()
        self._sender = _Sender(RedisConnection(url, TIMEOUT), channel, self.me, self._outage)
        self._listener = _Listener(RedisConnection(url, TIMEOUT), channel, self.me, self._outage)

    def listen(self, hear: Callable[[Notification], None]) -> None:
        """After each new subscription `hear` is told that settings may have changed, because notifications may have been missed."""
        self._listener.start(hear)

    def tell(self, notification: Notification) -> None:
        self._sender.tell(notification)

    def is_heard(self) -> bool:
        return self._listener.is_subscribed

    def close(self) -> None:
        """Sends pending notifications first, unless Redis is unreachable."""
        self._outage.give_up()
        self._listener.close()
        self._sender.close()

    def leave_to_parent(self) -> None:
        """In the child of a fork: nothing is sent or received from now on."""
        self._outage = _Outage()  # its lock may be held by a thread that does not exist here
        self._listener.leave_to_parent()
        self._sender.leave_to_parent()


class _Outage:
    """Redis is unreachable for one direction or both: logged once at the beginning and once at the end, however many attempts it takes."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._failures: dict[str, int] = {}
        self._recoveries = 0
        self._is_given_up = False

    def sit_out(self, who: str, error: RedisAway) -> bool:
        """Waits until the next attempt is due, which is at once if the other direction succeeds; False: give up."""
        with self._changed:
            if not self._failures and not self._is_given_up:
                _log.warning("Redis is unreachable, so other processes notice messages and settings later than usual: %s", error)
            failures = self._failures[who] = self._failures.get(who, 0) + 1
            longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(failures, 16))
            recoveries = self._recoveries
            self._changed.wait_for(lambda: self._is_given_up or self._recoveries != recoveries, random.uniform(FIRST_PAUSE, longest))
            return not self._is_given_up

    def end(self, who: str) -> None:
        if who not in self._failures:
            return
        with self._changed:
            del self._failures[who]
            self._recoveries += 1
            self._changed.notify_all()
            if not self._failures:
                _log.info("Redis is back")

    def give_up(self) -> None:
        with self._changed:
            self._is_given_up = True
            self._changed.notify_all()


class _Sender:
    def __init__(self, connection: RedisConnection, channel: str, me: str, outage: _Outage) -> None:
        self._connection = connection
        self._channel = channel
        self._me = me
        self._outage = outage
        self._changed = threading.Condition()
        self._box = Notification()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def tell(self, notification: Notification) -> None:
        with self._changed:
            if self._is_closed:
                return
            self._gather(notification)
            self._changed.notify()
            if self._thread is None:
                with suppress(RuntimeError):  # no thread can be had, as when the interpreter ends
                    thread = threading.Thread(target=self._run, name="rowq-redis-sender", daemon=True)
                    thread.start()
                    self._thread = thread

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        _join(self._thread, FAREWELL)
        self._connection.cut()
        _join(self._thread, FAREWELL)

    def leave_to_parent(self) -> None:
        self._is_closed = True
        self._changed = threading.Condition()
        self._thread = None
        self._connection.leave_to_parent()

    def _run(self) -> None:
        while (notification := self._take()) is not None:
            try:
                self._publish(notification)
            except RedisAway as error:
                with self._changed:
                    self._gather(notification)
                if not self._outage.sit_out("sender", error):
                    break
            else:
                self._outage.end("sender")
                time.sleep(GATHER)
        self._connection.hang_up()

    def _gather(self, notification: Notification) -> None:
        """Keeps the box small; a receive that waits for a dropped topic finds its messages by polling."""
        self._box.add(notification)
        while len(self._box.ready) > MAX_TOPICS:
            self._box.ready.popitem()

    def _take(self) -> Notification | None:
        """Waits for notifications and returns them merged; None if no more will come."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self._box.ready or self._box.settings)
            taken, self._box = self._box, Notification()
        return taken if taken.ready or taken.settings else None

    def _publish(self, notification: Notification) -> None:
        self._connection.ask("PUBLISH", self._channel, _FORMAT + _encoder.encode((self._me, notification)))


class _Listener:
    def __init__(self, connection: RedisConnection, channel: str, me: str, outage: _Outage) -> None:
        self._connection = connection
        self._channel = channel
        self._me = me
        self._outage = outage
        self._thread: threading.Thread | None = None
        self._is_standing = False
        self._is_closed = False

    @property
    def is_subscribed(self) -> bool:
        return self._is_standing and not self._is_closed

    def start(self, hear: Callable[[Notification], None]) -> None:
        if self._thread is None and not self._is_closed:
            self._thread = threading.Thread(target=self._run, args=(hear,), name="rowq-redis-listener", daemon=True)
            self._thread.start()

    def close(self) -> None:
        self._is_closed = True
        self._connection.cut()
        _join(self._thread, FAREWELL)

    def leave_to_parent(self) -> None:
        self._is_closed = True
        self._thread = None
        self._connection.leave_to_parent()

    def _run(self, hear: Callable[[Notification], None]) -> None:
        while True:
            try:
                self._connection.ask("SUBSCRIBE", self._channel)
                self._is_standing = True
                self._outage.end("listener")
                self._pass_on(Notification(settings=True), hear)
                while True:
                    notification = self._read(self._next())
                    if notification is not None:
                        self._pass_on(notification, hear)
            except RedisAway as error:
                self._is_standing = False
                self._connection.hang_up()
                if not self._outage.sit_out("listener", error):
                    break

    def _next(self) -> Any:
        answer = self._connection.read(SILENCE)
        if answer is None:
            self._connection.send("PING")
            answer = self._connection.read(TIMEOUT)
        if answer is None:
            raise RedisAway("it does not answer")
        return answer

    def _read(self, answer: Any) -> Notification | None:
        """A notification from another process; None for answers to PING and for foreign messages on the channel."""
        if not isinstance(answer, list) or answer[0] != b"message" or not answer[2].startswith(_FORMAT):
            return None
        try:
            sender, notification = _decoder.decode(answer[2][len(_FORMAT) :])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        return None if sender == self._me else notification

    def _pass_on(self, notification: Notification, hear: Callable[[Notification], None]) -> None:
        try:
            hear(notification)
        except Exception:
            _log.exception("a hint from another process could not be used")


def _join(thread: threading.Thread | None, seconds: float) -> None:
    if thread is not None and thread is not threading.current_thread():
        thread.join(seconds)
