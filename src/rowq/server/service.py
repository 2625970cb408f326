"""What every handler of the server works with: the engine, authentication, the limits, and the waiting requests."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ParamSpec, TypeVar

import msgspec

from rowq.engine.engine import Engine
from rowq.engine.operation import Operation, SingleCall
from rowq.errors import Unauthorized
from rowq.server.auth.authentication import Authenticator, Identity
from rowq.server.event_streams import EventStreams
from rowq.server.http import asgi
from rowq.server.http.exchange import Exchange
from rowq.server.http.patience import Stopwatch, first_of
from rowq.server.http.shortcut import Shortcut
from rowq.server.metrics import Metrics
from rowq.server.tracing import Tracing
from rowq.store.call import Receive

P = ParamSpec("P")
T = TypeVar("T")


class Limits(msgspec.Struct, frozen=True):
    """Limits on a client's requests."""

    max_body_bytes: int = 16 << 20
    body_timeout: float = 30.0


class Service:
    def __init__(
        self,
        engine: Engine,
        authenticator: Authenticator,
        limits: Limits | None = None,
        *,
        metrics: Metrics | None = None,
        tracing: Tracing | None = None,
        compat: Sequence[Any] = (),
        closed: tuple[str, ...] = (),
    ) -> None:
        """`compat`: the compatible APIs; each knows the service, and not the other way round. `closed`: paths that are not served."""
        self.engine = engine
        self.authenticator = authenticator
        self.limits = limits or Limits()
        self.metrics = metrics
        self.tracing = tracing
        self.compat = compat
        self.closed = closed
        self.event_streams = EventStreams()
        self.stopwatch = Stopwatch(self.limits.body_timeout)
        self.is_stopping = False
        self._patient: set[asyncio.Event] = set()

    async def ask(self, steps: Operation[T] | SingleCall[Any, T], actor: str | None = None) -> T:
        return await self.engine.driver.drive_async(steps, actor)

    async def look(self, function: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        return await self.ask(self.engine.verbs.look(function, *arguments, **options))

    async def take(
        self,
        new_call: Callable[[], Receive],
        wait_ms: int,
        receive: asgi.Receive,
        identity: Identity,
        shortcut: Shortcut | Exchange | None = None,
    ) -> Receive:
        """Receives once immediately, then for as long as the client waits. The caller checks that the client is still there."""
        call = new_call()
        await self.engine.driver.perform(call)
        if call.result or not wait_ms:
            return call
        with self.patience(shortcut) as stop:
            wait = self.ask(self.engine.verbs.wait_for(new_call, wait_ms / 1000), call.actor)
            call = await first_of(wait, receive, stop) or call
        if not self.authenticator.holds(identity):
            self.engine.give_back(call)
            raise Unauthorized("the key was revoked while you waited")
        return call

    @contextlib.contextmanager
    def patience(self, shortcut: Shortcut | Exchange | None = None) -> Iterator[asyncio.Event]:
        """An event that is set when the server stops, or when the client no longer wants to wait."""
        stop = asyncio.Event()
        if self.is_stopping or (shortcut is not None and shortcut.is_hurried):
            stop.set()
        self._patient.add(stop)
        if shortcut is not None:
            shortcut.wait_ends = stop
        try:
            yield stop
        finally:
            self._patient.discard(stop)
            if shortcut is not None:
                shortcut.wait_ends = None

    def stop(self) -> None:
        """Ends all waits: long polls are answered with what there is, event streams end."""
        self.is_stopping = True
        for stop in list(self._patient):
            stop.set()
