"""A request to a compatible API: the identity, the contents, and the verbs, each of which checks that the key reaches its queue."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import TypeVar

import msgspec
from msgspec import Struct

from rowq.engine.arguments import to_receipt_or_none, to_receive
from rowq.engine.insights import Lease
from rowq.errors import InvalidArgument, ReceiptRequired
from rowq.model.draft import Prepared, prepare
from rowq.model.lifecycle import Ack, Nack, Reject, Reschedule, Settlement
from rowq.model.message import Draft, Outcome
from rowq.model.queue import check_own_name, split_name
from rowq.server.auth.authentication import Identity
from rowq.server.http import asgi
from rowq.server.http.patience import ClientGone, is_gone
from rowq.server.service import Service
from rowq.server.tracing import Received
from rowq.store import operate
from rowq.store.call import Execute, Send, Settle
from rowq.store.dialect import Row
from rowq.store.lookup import ambiguous, only

T = TypeVar("T")
Settings = dict[str, object]
_VERBS: dict[type, str] = {Ack: "ack", Nack: "nack", Reject: "reject", Reschedule: "reschedule"}


class Adopted:
    """Queues known to exist, so that they are not checked with every message. They are forgotten when the settings of any queue change:
    one of them may have been deleted."""

    MOST = 10_000
    LOOK_EVERY = 1.0
    """Changes by other processes are seen within this many seconds."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._version = self._heard = -1
        self._looked_at = 0.0

    async def adopt(self, service: Service, queue: str, settings: Settings, actor: str | None) -> None:
        """Creates the queue with these settings if it does not exist; leaves an existing one as it is."""
        await self._forget_if_changed(service)
        if queue not in self._names:
            call: Execute[None] = Execute(partial(operate.adopt, queue=queue, changes=settings))
            call.actor = actor
            await service.engine.driver.perform(call)
            service.engine.store.distrust_settings()  # another process may have created it since the last look
            self._names.add(queue)

    async def _forget_if_changed(self, service: Service) -> None:
        heard, now = service.engine.store.distrusted, time.monotonic()
        if heard == self._heard and now - self._looked_at < self.LOOK_EVERY:
            return
        version = await service.look(service.engine.insights.settings_version)
        self._heard, self._looked_at = heard, now
        if version != self._version or len(self._names) >= self.MOST:
            self._names.clear()
            self._version = version


class CompatRequest(Struct):
    service: Service
    identity: Identity
    path: dict[str, str]
    headers: asgi.Headers
    query: dict[str, str]
    body: bytes
    receive: asgi.Receive
    send: asgi.Send

    def header(self, name: bytes) -> str | None:
        return next((value.decode("latin-1") for each, value in self.headers if each == name), None)

    def read_query(self, kind: type[T]) -> T:
        """The query as a type; unknown parameters are ignored."""
        try:
            return msgspec.convert(self.query, kind, strict=False)
        except msgspec.ValidationError as error:
            raise InvalidArgument(f"the query cannot be read: {error}") from None

    async def send_one(
        self, queue: str, draft: Draft | Prepared, *, adopted: Adopted | None = None, settings: Settings | None = None
    ) -> str:
        """Returns the message's id. With `adopted`, a queue that does not exist is created with `settings`."""
        self.identity.check("send", check_own_name(queue))
        prepared = draft if isinstance(draft, Prepared) else prepare(queue, draft)
        if adopted is not None:
            await adopted.adopt(self.service, queue, settings or {}, self.identity.actor)
        tracing = self.service.tracing
        with nullcontext() if tracing is None else tracing.sending(self.headers, queue, [prepared]):
            call = Send(queue, [prepared], actor=self.identity.actor)  # created here, since tracing has added headers
            return (await self.service.engine.driver.perform(call))[0]

    async def take(self, queue: str, *, max: int = 1, lease_ms: int | None = None, wait_ms: int = 0) -> list[Row]:
        """Rows of deliveries, as `answers.delivery` reads them. If the client has left, they are given back."""
        self.identity.check("receive", split_name(queue)[0])
        new_call = to_receive(queue, max, lease_ms=lease_ms, actor=self.identity.actor)
        tracing = self.service.tracing
        with nullcontext(Received()) if tracing is None else tracing.receiving(self.headers, queue) as received:
            call = await self.service.take(new_call, wait_ms, self.receive, self.identity)
            received.hand_out(call.result or ())
        if call.result and is_gone(self.receive):
            self.service.engine.give_back(call)
            raise ClientGone
        return call.result or []

    async def settle(
        self, queue: str | None, id: str, settlement: Settlement | Callable[[Lease], Settlement], receipt: str | None = None
    ) -> Outcome:
        """Settles by receipt if the client sends one; by id alone, only the current lease.

        `queue` is the name that the message must have been received from; None: any within reach. The settlement may depend on the
        lease: queue-ti settles dead letters differently."""
        service, engine = self.service, self.service.engine
        if queue is not None:
            self.identity.check("receive", split_name(queue)[0])
        leases = await service.look(engine.insights.leases_of, id, self.identity.reaches if queue is None else only(queue))
        if queue is not None:
            leases = [lease for lease in leases if split_name(queue) == (lease.queue, lease.is_dead)]
        if receipt is not None:
            shown = to_receipt_or_none(receipt)
            held = [lease for lease in leases if lease.receipt == shown]
            if leases and not held:
                return Outcome.STALE
            leases = held
        if not leases:
            return Outcome.NOT_FOUND
        if len(leases) > 1:
            raise ambiguous(id, sorted(lease.queue for lease in leases))
        lease = leases[0]
        if receipt is None:
            if (await service.look(engine.insights.policy, lease.queue)).require_receipt:
                raise ReceiptRequired(f"the queue {lease.queue!r} requires a receipt: send back the one that came with the message")
            if lease.until <= engine.clock.now():
                return Outcome.NOT_FOUND
        call = Settle([lease.receipt], settlement(lease) if callable(settlement) else settlement, self.identity.actor)
        with nullcontext() if service.tracing is None else service.tracing.settling(self.headers, _VERBS[type(call.settlement)], 1):
            (outcome,) = await engine.driver.perform(call)
        if service.event_streams:
            service.event_streams.learn(call.receipts, [outcome], None)
        return outcome
