"""What each verb does, written once for threads and event loops: check the arguments, call the store, shape the result."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any, ParamSpec, TypeVar

from rowq.clock import Clock
from rowq.engine import bulk
from rowq.engine.arguments import (
    MAX_WAIT_MS,
    Settled,
    check_mode,
    check_quarantine,
    dead_choice,
    dead_limit,
    insist_done,
    insist_on_choice,
    listed,
    note,
    receive_max,
    to_extend,
    to_receive,
    to_send,
    to_settle,
    to_settle_one,
)
from rowq.engine.bulk import Progress
from rowq.engine.insights import Insights
from rowq.engine.operation import Enter, Operation, Read, SingleCall, Wait, nothing
from rowq.engine.waiting import Interrupt, WaitingRoom
from rowq.errors import InvalidArgument
from rowq.model.access import SECRET_PREFIX, check_key_name, digest_of, to_key
from rowq.model.draft import prepare_one, to_kv_key
from rowq.model.duration import Duration, optional_ms, to_ms
from rowq.model.lifecycle import Extend, Settlement
from rowq.model.member import ConsumerLook, Member, Membership, Share, consumer_gone, is_consumer_id, new_consumer_id, to_silence
from rowq.model.message import Delivery, KvKey, Outcome, SendOptions, State, Where
from rowq.model.page import to_state
from rowq.model.queue import DeliveryMode, Settings, check_name, check_own_name, split_name
from rowq.model.settings_text import to_changes
from rowq.model.stream import check_stream_name
from rowq.store import access, operate, registry
from rowq.store.call import Execute, Receive, Send
from rowq.store.dead_letter import Deletion, Redrive
from rowq.store.dialect import Row
from rowq.store.lookup import Reach, check_id, only
from rowq.store.row import to_deliveries
from rowq.store.stream import revoke

P = ParamSpec("P")
T = TypeVar("T")

_PURGED_BY_DEFAULT = (State.READY, State.SCHEDULED, State.BLOCKED)


class Verbs:
    def __init__(self, insights: Insights, room: WaitingRoom, clock: Clock) -> None:
        self._insights = insights
        self._room = room
        self._clock = clock

    def send(self, queue: str, payload: Any, options: SendOptions) -> SingleCall[list[str], str]:
        return SingleCall(Send(check_own_name(queue), [prepare_one(queue, payload, options)]), itemgetter(0))

    def send_many(
        self, queue: str, payloads: Iterable[Any], options: SendOptions
    ) -> Operation[list[str]] | SingleCall[list[str], list[str]]:
        call = to_send(queue, payloads, options)
        return SingleCall(call, list) if call.messages else nothing([])

    def receive(
        self,
        queue: str,
        max: int,
        wait: Duration,
        lease: Duration | None,
        consumer: str | None,
        delivery: DeliveryMode | None,
        share: Share | None,
        interrupt: Interrupt | None = None,
    ) -> Operation[list[Delivery]] | SingleCall[list[Row], list[Delivery]]:
        check_name(queue)
        most, lease_ms = receive_max(max), optional_ms(lease, "lease", least=1)
        patience = to_ms(wait, "wait", most=MAX_WAIT_MS) / 1000
        check_mode(delivery)
        call = to_receive(queue, most, lease_ms=lease_ms, consumer=consumer, delivery=delivery, share=share)
        return self._wait(call, patience, interrupt or Interrupt()) if patience else SingleCall(call(), to_deliveries)

    def wait_for(self, call: Callable[[], Receive], patience: float, interrupt: Interrupt | None = None) -> Operation[Receive]:
        """Repeats a receive until it returns something, the patience ends, or it is interrupted; gives the last call."""
        until = time.monotonic() + patience
        interrupt = interrupt or Interrupt()
        while True:
            attempt = call()
            ticket = yield Enter(attempt.topic)
            has_waited = has_looked = False
            try:
                rows = yield attempt
                has_looked = True
                left = until - time.monotonic()
                if rows or left <= 0 or interrupt.is_set:
                    return attempt
                with interrupt.watched(ticket.how.wake):
                    yield Wait(ticket, left)
                has_waited = True
            finally:
                is_unused = not has_looked or (ticket.waiter.is_woken and not has_waited)
                self._room.leave(ticket.waiter, more=is_unused or len(attempt.result or ()) == attempt.max)

    def settle(self, delivery: Settled, settlement: Settlement) -> SingleCall[list[Outcome], None]:
        return SingleCall(to_settle_one(delivery, settlement), lambda outcomes: insist_done(outcomes, delivery))

    def settle_many(
        self, deliveries: Iterable[Settled], settlement: Settlement | Extend
    ) -> Operation[list[Outcome]] | SingleCall[list[Outcome], list[Outcome]]:
        call = to_settle(deliveries, settlement)
        return SingleCall(call, list) if call.receipts else nothing([])

    def extend(self, delivery: Settled, lease: Duration | None) -> SingleCall[list[Outcome], int]:
        call = to_settle_one(delivery, to_extend(lease))

        def until(outcomes: list[Outcome]) -> int:
            insist_done(outcomes, delivery)
            return call.until[call.receipts[0][0]]

        return SingleCall(call, until)

    def look(self, function: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> Operation[T]:
        answer: T = yield Read(lambda: function(*arguments, **options))
        return answer

    def configure(self, queue: str, settings: dict[str, Any]) -> Operation[Settings]:
        return self.change_settings(queue, to_changes(settings))

    def change_settings(self, queue: str, changes: dict[str, Any]) -> Operation[Settings]:
        """The same, with changes as fields of `Settings`."""
        name = check_own_name(queue)
        after: Settings = yield Execute(lambda tx: operate.configure(tx, name, changes))
        return after

    def pause(self, queue: str) -> Operation[None]:
        return self._pause(queue, {"paused": True})

    def resume(self, queue: str) -> Operation[None]:
        return self._pause(queue, {"paused": None})

    def _pause(self, queue: str, changes: dict[str, Any]) -> Operation[None]:
        name = check_own_name(queue)
        yield Read(lambda: self._insights.insist(name))
        yield Execute(lambda tx: operate.pause(tx, name, changes))

    def _of_queue(self, name: str, steps: Operation[T]) -> Operation[T]:
        """For verbs that would silently do nothing if the name of the queue is mistyped."""
        yield Read(lambda: self._insights.insist(name))
        return (yield from steps)

    def purge(self, queue: str, states: Sequence[str] | None, progress: Progress | None = None) -> Operation[int]:
        name, is_dead = split_name(queue)
        default = [State.DEAD] if is_dead else _PURGED_BY_DEFAULT
        named = [to_state(state) for state in (default if states is None else listed(states, "states"))]
        if is_dead and set(named) - {State.DEAD}:
            raise InvalidArgument(f"{queue!r} are dead letters: to purge messages in other states, name the queue {name!r}")
        return self._of_queue(name, bulk.purge(self._insights, name, named, progress))

    def delete(self, id: str, queue: str | None = None) -> Operation[None]:
        return self.delete_within(id, only(queue))

    def delete_within(self, id: str, reach: Reach) -> Operation[None]:
        """The message with that id in the queues within reach."""
        check_id(id)
        yield Execute(lambda tx: operate.delete(tx, id, reach))

    def delete_queue(self, queue: str) -> Operation[None]:
        name = check_own_name(queue)
        yield Read(lambda: self._insights.insist(name))
        yield Execute(lambda tx: revoke.refuse_streamed(tx, name), durable=False)
        yield from bulk.empty(self._insights, name)
        yield Execute(lambda tx: operate.delete_queue(tx, name))

    def redrive(
        self, queue: str, ids: Iterable[str] | None, where: Where | None, limit: int | None, rate: float | None, progress: Progress | None
    ) -> Operation[int]:
        name, _ = split_name(queue)
        chosen, filters = dead_choice(ids, where)
        return self._of_queue(name, bulk.treat_dead(Redrive, name, chosen, filters, dead_limit(limit), rate, progress))

    def delete_dead(
        self, queue: str, ids: Iterable[str] | None, where: Where | None, limit: int | None, rate: float | None, progress: Progress | None
    ) -> Operation[int]:
        name, _ = split_name(queue)
        chosen, filters = dead_choice(ids, where)
        insist_on_choice(chosen, filters)
        return self._of_queue(name, bulk.treat_dead(Deletion, name, chosen, filters, dead_limit(limit), rate, progress))

    def forget(self, key: KvKey) -> Operation[bool]:
        entry_key = operate.entry_key(to_kv_key(key))
        was_there: bool = yield Execute(lambda tx: operate.forget(tx, entry_key))
        return was_there

    def register(self, queue: str, dead_after: Duration, id: str | None = None) -> Operation[Membership]:
        """`id`: one chosen by the consumer, so that a repeated request does not register it twice."""
        name, silence, own_id = check_own_name(queue), to_silence(dead_after), new_consumer_id(id)
        membership: Membership = yield Execute(lambda tx: registry.register(tx, name, own_id, silence), durable=False)
        return membership

    def beat(self, queue: str, id: str, dead_after: Duration, remove_dead: bool) -> Operation[Membership]:
        name, silence = check_own_name(queue), to_silence(dead_after)
        membership: Membership | None = None
        if is_consumer_id(id):
            membership = yield Execute(lambda tx: registry.beat(tx, name, id, silence, remove_dead), durable=False)
        if membership is None:
            raise consumer_gone(name, id)
        return membership

    def unregister(self, queue: str, id: str) -> Operation[None]:
        name = check_own_name(queue)
        if is_consumer_id(id):
            yield Execute(lambda tx: registry.leave(tx, name, id), durable=False)

    def consumers(self, queue: str, dead_after: Duration) -> Operation[list[Member]]:
        name, silence = check_own_name(queue), to_silence(dead_after)
        members: list[Member] = yield Read(lambda: self._insights.consumers(name, self._clock.now(), silence))
        return members

    def all_consumers(self, dead_after: Duration, sees: Callable[[str], bool] | None = None) -> Operation[list[ConsumerLook]]:
        """`sees`: which queues the caller may see."""
        silence = to_silence(dead_after)
        found: list[ConsumerLook] = yield Read(lambda: self._insights.all_consumers(self._clock.now(), silence, sees))
        return found

    def create_key(self, name: str, scopes: Iterable[str], queues: Iterable[str]) -> Operation[str]:
        """Returns the secret, which is shown only once: the database keeps its digest."""
        key = to_key(name, listed(scopes, "scopes"), listed(queues, "queues"), self._clock.now())
        secret = SECRET_PREFIX + secrets.token_urlsafe(32)
        yield Execute(lambda tx: access.create_key(tx, key, digest_of(secret)))
        return secret

    def revoke_key(self, name: str) -> Operation[None]:
        check_key_name(name)
        yield Execute(lambda tx: access.revoke_key(tx, name))

    def sign_in(self, digest: bytes, key_name: str, key_digest: bytes, lifetime_ms: int) -> Operation[None]:
        """Signs a key in to the pages; `digest` is that of the cookie that stands for the key from now on."""
        yield Execute(lambda tx: access.sign_in(tx, digest, key_name, key_digest, tx.now + lifetime_ms))

    def sign_out(self, digest: bytes) -> Operation[None]:
        yield Execute(lambda tx: access.sign_out(tx, digest))

    def revoke_stream(self, stream: str) -> Operation[int]:
        name = check_stream_name(stream)
        count: int = yield Execute(lambda tx: revoke.revoke(tx, name))
        return count

    def quarantine(self, stream: str, batch: int, ids: Iterable[str], reason: str | None) -> Operation[int]:
        name, number, chosen = check_quarantine(stream, batch, ids)
        why = note(reason, "reason")
        count: int = yield Execute(lambda tx: revoke.quarantine(tx, name, number, chosen, why))
        return count

    def _wait(self, call: Callable[[], Receive], patience: float, interrupt: Interrupt) -> Operation[list[Delivery]]:
        """Receives once more after entering the waiting room, so that no wake-up is lost between looking and waiting."""
        if rows := (yield call()):
            return to_deliveries(rows)
        last = yield from self.wait_for(call, patience, interrupt)
        return to_deliveries(last.result or [])
