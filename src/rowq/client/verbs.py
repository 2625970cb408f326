"""What each verb asks of a server: the same checks as in process, then one request or a few, and what their responses mean."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ParamSpec, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from rowq.client.bodies import many_body, one_body, read_deliveries, read_results
from rowq.client.dead import delete_dead, redrive
from rowq.client.exchange import Exchange, Kind, gone, look, no_answer, reader
from rowq.client.http import Answer
from rowq.client.insights import message_target
from rowq.client.settling import insist_done, read_outcomes, receipt_of, settle, settle_in_pieces
from rowq.engine.arguments import (
    MAX_WAIT_MS,
    Settled,
    check_mode,
    check_quarantine,
    listed,
    note,
    receive_max,
    to_extend,
    to_receipt,
    to_send,
)
from rowq.engine.bulk import Progress
from rowq.engine.operation import Operation, Sleep, nothing
from rowq.engine.waiting import Interrupt
from rowq.errors import NotFound, OutcomeUnknown
from rowq.model.access import check_key_name, to_key
from rowq.model.draft import prepare_one, to_kv_key
from rowq.model.duration import Duration, optional_ms, to_ms
from rowq.model.lifecycle import Extend, Nack, Settlement
from rowq.model.member import ConsumerLook, Member, Membership, Share, consumer_gone, is_consumer_id, new_consumer_id, to_share, to_silence
from rowq.model.message import Delivery, KvKey, Outcome, SendOptions
from rowq.model.page import to_state
from rowq.model.queue import DeliveryMode, Settings, change, check_own_name, split_name
from rowq.model.settings_text import to_changes
from rowq.model.stream import check_stream_name
from rowq.wire import MAX_RECEIPTS, Count, SentMany, SentOne, SettingsBody, of_backoff, to_settings

P = ParamSpec("P")
T = TypeVar("T")

LONGEST_WAIT = 30.0
"""The longest wait of one request; a longer wait takes several, since proxies often time out after a minute."""
UNASKED_PAUSE = 0.1
"""Pause after an empty response that came early: the server is stopping, or limits waits."""

_encode = msgspec.json.Encoder().encode
_sent_one = reader(SentOne)
_sent_many = reader(SentMany)
_counted = reader(Count)
_set = reader(SettingsBody)


class _CreatedKey(msgspec.Struct):
    secret: str


class _Consumers(msgspec.Struct):
    consumers: list[Member]


class _AllConsumers(msgspec.Struct):
    consumers: list[ConsumerLook]


_created = reader(_CreatedKey)
_membership = reader(Membership)
_consumers = reader(_Consumers)
_all_consumers = reader(_AllConsumers)


class RemoteVerbs:
    """Has the interface of `rowq.engine.verbs.Verbs`; the broker passes the results to the driver of this package."""

    redrive = staticmethod(redrive)
    delete_dead = staticmethod(delete_dead)

    def send(self, queue: str, payload: Any, options: SendOptions) -> Exchange[str]:
        name = check_own_name(queue)
        body = one_body(prepare_one(name, payload, options))
        return Exchange(b"POST", f"/v1/queues/{name}/messages", body, lambda answer: _sent_one(answer).id, headers=_request_key())

    def send_many(self, queue: str, payloads: Iterable[Any], options: SendOptions) -> Exchange[list[str]] | Operation[list[str]]:
        messages = to_send(queue, payloads, options).messages
        if not messages:
            return nothing([])
        target = f"/v1/queues/{queue}/messages"
        return Exchange(b"POST", target, many_body(messages), lambda answer: _sent_many(answer).ids, headers=_request_key())

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
    ) -> Exchange[list[Delivery]] | Operation[list[Delivery]]:
        _, from_dead = split_name(queue)
        asked: dict[str, Any] = {"max": receive_max(max), "lease_ms": optional_ms(lease, "lease", least=1)}
        patience = to_ms(wait, "wait", most=MAX_WAIT_MS) / 1000
        check_mode(delivery)
        asked |= {"delivery": delivery, "consumer": note(consumer, "consumer"), "share": to_share(share, from_dead=from_dead)}
        return _wait(queue, asked, patience, interrupt or Interrupt()) if patience else _receive(queue, asked, 0.0, None)

    def settle(self, delivery: Settled, settlement: Settlement) -> Exchange[None]:
        to_receipt(delivery)

        def read(answer: Answer) -> None:
            insist_done(read_results(answer), delivery, answer)

        return settle([receipt_of(delivery)], settlement, read)

    def settle_many(
        self, deliveries: Iterable[Settled], settlement: Settlement | Extend
    ) -> Exchange[list[Outcome]] | Operation[list[Outcome]]:
        receipts = [receipt_of(delivery) for delivery in listed(deliveries, "deliveries")]
        if 0 < len(receipts) <= MAX_RECEIPTS:
            return settle(receipts, settlement, read_outcomes)
        return settle_in_pieces(receipts, settlement, MAX_RECEIPTS)

    def extend(self, delivery: Settled, lease: Duration | None) -> Exchange[int]:
        to_receipt(delivery)

        def read(answer: Answer) -> int:
            results = read_results(answer)
            insist_done(results, delivery, answer)
            return results[0].lease_until or 0

        return settle([receipt_of(delivery)], to_extend(lease), read)

    def look(self, function: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        """Functions of RemoteInsights already return requests."""
        return function(*arguments, **options)

    def configure(self, queue: str, settings: dict[str, Any]) -> Exchange[Settings]:
        name, changes = check_own_name(queue), to_changes(settings)
        change(Settings(), **changes)
        if "backoff" in changes:
            changes["backoff_ms"] = of_backoff(changes.pop("backoff"))
        return Exchange(b"PUT", f"/v1/queues/{name}", _encode(changes), lambda answer: Settings(**to_settings(_set(answer))))

    def pause(self, queue: str) -> Exchange[None]:
        return Exchange(b"POST", f"/v1/queues/{check_own_name(queue)}/pause", b"", no_answer)

    def resume(self, queue: str) -> Exchange[None]:
        return Exchange(b"DELETE", f"/v1/queues/{check_own_name(queue)}/pause", b"", no_answer)

    def purge(self, queue: str, states: Sequence[str] | None, progress: Progress | None = None) -> Exchange[int] | Operation[int]:
        """A server purges in one request, so progress is reported once. Sent once: a first try that arrives late would delete what came
        after the second."""
        split_name(queue)
        named = None if states is None else [to_state(state).value for state in listed(states, "states")]
        if named == []:
            return nothing(0)
        target = f"/v1/queues/{queue}/messages" + ("" if named is None else "?" + urlencode([("state", state) for state in named]))

        def read(answer: Answer) -> int:
            count = _counted(answer).count
            if progress is not None:
                progress(count)
            return count

        return Exchange(b"DELETE", target, b"", read, Kind.ONCE, is_slow=True)

    def delete(self, id: str, queue: str | None = None) -> Exchange[None]:
        return Exchange(b"DELETE", message_target(id, queue=queue), b"", no_answer, missing=gone)

    def delete_queue(self, queue: str) -> Exchange[None]:
        return Exchange(b"DELETE", f"/v1/queues/{check_own_name(queue)}", b"", no_answer, Kind.ONCE, is_slow=True)

    def forget(self, key: KvKey) -> Exchange[bool]:
        target = f"/v1/keys?key={quote(_encode(to_kv_key(key)), safe='')}"
        return Exchange(b"DELETE", target, b"", lambda answer: True, missing=_was_not_there)

    def register(self, queue: str, dead_after: Duration) -> Exchange[Membership]:
        """The id is chosen here, so a second try registers the same consumer."""
        body = _encode({"id": new_consumer_id(), "dead_after_ms": to_silence(dead_after)})
        return Exchange(b"POST", f"/v1/queues/{check_own_name(queue)}/consumers", body, _membership)

    def beat(self, queue: str, id: str, dead_after: Duration, remove_dead: bool) -> Exchange[Membership]:
        name, silence = check_own_name(queue), to_silence(dead_after)
        if not is_consumer_id(id):
            raise consumer_gone(name, id)
        body = _encode({"dead_after_ms": silence, "remove_dead": bool(remove_dead)})
        return Exchange(b"POST", f"/v1/queues/{name}/consumers/{id}/beat", body, _membership)

    def unregister(self, queue: str, id: str) -> Exchange[None] | Operation[None]:
        name = check_own_name(queue)
        if not is_consumer_id(id):
            return nothing(None)
        return Exchange(b"DELETE", f"/v1/queues/{name}/consumers/{id}", b"", no_answer)

    def consumers(self, queue: str, dead_after: Duration) -> Exchange[list[Member]]:
        target = f"/v1/queues/{check_own_name(queue)}/consumers?dead_after_ms={to_silence(dead_after)}"
        return look(target, lambda answer: _consumers(answer).consumers)

    def all_consumers(self, dead_after: Duration) -> Exchange[list[ConsumerLook]]:
        return look(f"/v1/consumers?dead_after_ms={to_silence(dead_after)}", lambda answer: _all_consumers(answer).consumers)

    def create_key(self, name: str, scopes: Iterable[str], queues: Iterable[str]) -> Exchange[str]:
        key = to_key(name, listed(scopes, "scopes"), listed(queues, "queues"), 0)
        body = _encode({"name": key.name, "scopes": key.scopes, "queues": key.queues})
        return Exchange(b"POST", "/v1/api-keys", body, lambda answer: _created(answer).secret, Kind.ONCE)

    def revoke_key(self, name: str) -> Exchange[None]:
        return Exchange(b"DELETE", f"/v1/api-keys/{check_key_name(name)}", b"", no_answer, missing=gone)

    def revoke_stream(self, stream: str) -> Exchange[int]:
        """Sent once: a second try would oust a holder that has claimed the stream since."""
        target = f"/v1/streams/{check_stream_name(stream)}/revocation"
        return Exchange(b"POST", target, b"", lambda answer: _counted(answer).count, Kind.ONCE, is_slow=True)

    def quarantine(self, stream: str, batch: int, ids: Iterable[str], reason: str | None) -> Exchange[int] | Operation[int]:
        name, number, chosen = check_quarantine(stream, batch, ids)
        if not chosen:
            return nothing(0)
        body = _encode({"batch": number, "ids": chosen, "reason": note(reason, "reason")})
        return Exchange(b"POST", f"/v1/streams/{name}/quarantine", body, lambda answer: _counted(answer).count, Kind.ONCE)


def _request_key() -> bytes:
    """The same for every try of a call, so that a server that received the first try answers the second alike."""
    return b"Idempotency-Key: %s\r\n" % uuid.uuid4().hex.encode()


def _receive(queue: str, asked: dict[str, Any], wait: float, interrupt: Interrupt | None) -> Exchange[list[Delivery]]:
    """A lost response loses nothing: its messages return when their leases expire. For at-most-once delivery they would not."""
    given = {name: value for name, value in asked.items() if value is not None}
    kind = Kind.ONCE if asked["delivery"] == "at_most_once" else Kind.LOOK
    body = _encode({**given, "wait_ms": round(wait * 1000)})
    target = f"/v1/queues/{queue}/deliveries"
    return Exchange(b"POST", target, body, read_deliveries, kind, wait=wait, interrupt=interrupt, undo=_give_back)


def _give_back(answer: Answer) -> Exchange[Any] | None:
    """For a response that its caller no longer waits for: its messages go back as if they had not been delivered."""
    receipts = [delivery.receipt for delivery in read_deliveries(answer)] if answer.status < 300 else []
    return settle(receipts, Nack(counts=False, delay=0), no_answer) if receipts else None


def _wait(queue: str, asked: dict[str, Any], seconds: float, interrupt: Interrupt) -> Operation[list[Delivery]]:
    until = time.monotonic() + seconds
    while True:
        began = time.monotonic()
        piece = min(max(0.0, until - began), LONGEST_WAIT)
        deliveries: list[Delivery] = yield _receive(queue, asked, piece, interrupt)
        now = time.monotonic()
        if deliveries or now >= until or interrupt.is_set:
            return deliveries
        if now - began < piece / 2:
            yield Sleep(min(UNASKED_PAUSE, until - now))


def _was_not_there(answer: Answer, error: NotFound) -> bool:
    if answer.is_repeat:
        raise OutcomeUnknown("an answer was lost, and the next try found nothing: the first may have forgotten it") from error
    return False
