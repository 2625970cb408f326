"""The connections of one broker, kept for the next request. Each calling thread has one to itself; few are kept idle.

There is no lock: a fork could happen while another thread held it. The operations of deque and set that are used here are atomic.
"""

from __future__ import annotations

import os
import time
from collections import deque

from rowq.client.address import Address
from rowq.client.connection import Connection, open_connection
from rowq.errors import BrokerClosed

MOST_AT_REST = 32
GRACE = 1.0
"""Seconds that a receive may take to end when asked to, before its connection is cut."""
FRESH = 1.0
"""A server may close an idle connection just as it is used again: never one idle for less than this."""


class Pool:
    def __init__(self, address: Address) -> None:
        self._address = address
        self._at_rest: deque[Connection] = deque()
        self._in_use: set[Connection] = set()
        self._process = os.getpid()
        self._is_closed = False

    def take(self, seconds: float, *, must_be_fresh: bool) -> Connection:
        self.check_open()
        connection = self._rested(must_be_fresh) or open_connection(self._address, seconds)
        self._in_use.add(connection)
        if self._is_closed:  # closed meanwhile
            self.drop(connection)
        self.check_open()
        return connection

    def give_back(self, connection: Connection) -> None:
        """Keeps it for the next request, if the response was read to its end."""
        if not connection.may_be_kept or self._is_closed or len(self._at_rest) >= MOST_AT_REST:
            self.drop(connection)
            return
        self._in_use.discard(connection)
        connection.idle_since = time.monotonic()
        self._at_rest.append(connection)
        if self._is_closed:
            self._empty()

    def drop(self, connection: Connection) -> None:
        self._in_use.discard(connection)
        connection.close()

    def check_open(self) -> None:
        if self._is_closed:
            raise BrokerClosed("this broker was closed: connect again")
        if self._process != os.getpid():
            self._leave_to_parent()

    def close(self) -> None:
        """Closes idle connections at once, busy ones when their response has arrived; asks waiting receives to end."""
        if self._process != os.getpid():
            self._leave_to_parent()
        self._is_closed = True
        self._empty()
        for connection in self._waiting():
            connection.hurry()
        until = time.monotonic() + GRACE
        while (waiting := self._waiting()) and time.monotonic() < until:
            time.sleep(0.002)
        for connection in waiting:
            connection.cut()

    def _waiting(self) -> list[Connection]:
        return [connection for connection in list(self._in_use) if connection.is_waiting]

    def _rested(self, must_be_fresh: bool) -> Connection | None:
        """The one used last, so that surplus ones age."""
        while True:
            try:
                connection = self._at_rest.pop()
            except IndexError:
                return None
            if (not must_be_fresh or time.monotonic() - connection.idle_since < FRESH) and connection.is_quiet():
                return connection
            connection.close()

    def _empty(self) -> None:
        while True:
            try:
                self._at_rest.pop().close()
            except IndexError:
                return

    def _leave_to_parent(self) -> None:
        """After a fork, connections opened before it belong to the parent: two processes would read each other's responses."""
        inherited = [*self._at_rest, *self._in_use]
        self._at_rest, self._in_use, self._process = deque(), set(), os.getpid()
        for connection in inherited:
            connection.leave()
