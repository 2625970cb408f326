"""What each verb does, written once for threads and event loops: check what was given, ask the store, shape the answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, ParamSpec, TypeVar

import msgspec

from rowq.clock import Clock
from rowq.errors import InvalidArgument, InvalidReceipt, LeaseLost
from rowq.ids import Receipt, read_receipt, receipt_of_delivery
from rowq.insights import Insights, to_state
from rowq.model.draft import prepare, prepare_many, to_backoff, to_kv_key
from rowq.model.duration import optional_ms, to_ms
from rowq.model.lifecycle import Extend, Nack, Reject, Reschedule, Verdict
from rowq.model.message import Delivery, Draft, Duration, KvKey, Outcome, SendOptions, SettingsOptions, State, Where
from rowq.model.queue import DeliveryMode, Settings, check_own_name, split_name
from rowq.model.text import check_text, mend_text
from rowq.steps import Ask, Enter, Read, Sleep, Steps, Wait
from rowq.store import operating
from rowq.store.calls import Act, Receive, Send, Settle
from rowq.store.dialect import Row
from rowq.store.finding import check_id
from rowq.store.rows import to_deliveries
from rowq.waiting import WaitingRoom

MAX_RECEIVE = 1_000
MAX_SEND = 100_000
MAX_WAIT_MS = 3_600_000
MAX_NOTE = 4_096
PIECE = 500

P = ParamSpec("P")
T = TypeVar("T")
Settled = Delivery | str
Progress = Callable[[int], None]

_DURATIONS = {"lease": 1, "ttl": 0, "retention": 0, "audit_retention": 0, "dlq_ttl": 0}
_PURGED_BY_DEFAULT = (State.READY, State.SCHEDULED, State.BLOCKED)
_PURGE_ORDER = (State.BLOCKED, State.SCHEDULED, State.READY, State.LEASED, State.DEAD, State.FINISHED)


class Verbs:
    def __init__(self, insights: Insights, room: WaitingRoom, clock: Clock) -> None:
        self._insights = insights
        self._room = room
        self._clock = clock

    def send(self, queue: str, payload: Any, options: SendOptions) -> Ask[list[str], str]:
        return Ask(Send(check_own_name(queue), [prepare(queue, Draft(payload, **options))]), itemgetter(0))

    def send_many(self, queue: str, payloads: Iterable[Any], options: SendOptions) -> Steps[list[str]] | Ask[list[str], list[str]]:
        call = to_send(queue, payloads, options)
        return Ask(call, list) if call.messages else _nothing()

    def receive(
        self, queue: str, max: int, wait: Duration, lease: Duration | None, consumer: str | None, delivery: DeliveryMode | None
    ) -> Steps[list[Delivery]] | Ask[list[Row], list[Delivery]]:
        name, from_dead = split_name(queue)
        most, lease_ms = _receive_max(max), optional_ms(lease, "lease", least=1)
        patience = to_ms(wait, "wait", most=MAX_WAIT_MS) / 1000
        _check_mode(delivery)
        owner = _note(consumer, "consumer")

        def call() -> Receive:
            return Receive(name, most, lease_ms, owner, from_dead=from_dead, delivery=delivery)

        return self._wait(call, patience) if patience else Ask(call(), to_deliveries)

    def settle(self, delivery: Settled, verdict: Verdict) -> Ask[list[Outcome], None]:
        return Ask(Settle([to_receipt(delivery)], verdict), lambda outcomes: _insist_done(outcomes, delivery))

    def settle_many(
        self, deliveries: Iterable[Settled], verdict: Verdict | Extend
    ) -> Steps[list[Outcome]] | Ask[list[Outcome], list[Outcome]]:
        call = Settle([to_receipt(delivery) for delivery in listed(deliveries, "deliveries")], verdict)
        return Ask(call, list) if call.receipts else _nothing()

    def extend(self, delivery: Settled, lease: Duration | None) -> Ask[list[Outcome], int]:
        call = Settle([to_receipt(delivery)], to_extend(lease))

        def until(outcomes: list[Outcome]) -> int:
            _insist_done(outcomes, delivery)
            return call.until[call.receipts[0][0]]

        return Ask(call, until)

    def look(self, function: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> Steps[T]:
        answer: T = yield Read(lambda: function(*arguments, **options))
        return answer

    def configure(self, queue: str, settings: dict[str, Any]) -> Steps[Settings]:
        name, changes = check_own_name(queue), to_changes(settings)
        after: Settings = yield Act(lambda work: operating.configure(work, name, changes))
        return after

    def purge(self, queue: str, states: Sequence[str] | None) -> Steps[int]:
        name, is_dead = split_name(queue)
        default = [State.DEAD] if is_dead else _PURGED_BY_DEFAULT
        named = [to_state(state) for state in (default if states is None else listed(states, "states"))]
        count = 0
        for state in [state for state in _PURGE_ORDER if state in named]:
            seqs = yield Read(lambda state=state: self._insights.list_seqs(name, state))  # type: ignore[misc]
            for start in range(0, len(seqs), PIECE):
                piece = list(seqs[start : start + PIECE])
                count += yield Act(lambda work, state=state, piece=piece: operating.purge(work, name, state, piece))  # type: ignore[misc]
        yield Act(lambda work: operating.note_purge(work, name, count, named))
        return count

    def delete(self, id: str) -> Steps[None]:
        check_id(id)
        yield Act(lambda work: operating.delete(work, id))

    def delete_queue(self, queue: str) -> Steps[None]:
        name = check_own_name(queue)
        yield Read(lambda: self._insights.settings(name))
        is_gone = False
        while not is_gone:
            yield from self.purge(name, list(State))
            is_gone = yield Act(lambda work: operating.delete_queue(work, name))

    def redrive(
        self,
        queue: str,
        ids: Iterable[str] | None,
        where: Where | None,
        limit: int | None,
        rate: float | None,
        progress: Progress | None,
    ) -> Steps[int]:
        name, _ = split_name(queue)
        most, piece = _redrive_limit(limit), _redrive_piece(rate)
        chosen = None if ids is None else list(dict.fromkeys(check_id(id) for id in listed(ids, "ids")))
        _check_where(where)
        started = time.monotonic()
        count, after = 0, 0
        while count < most and after is not None:
            act = operating.Redrive(name, chosen, where or Where(), after, min(piece, most - count))
            moved, after = yield Act(act)
            count += moved
            if progress is not None:
                progress(count)
            if rate is not None and after is not None:
                yield Sleep(max(0.0, started + count / rate - time.monotonic()))
        return count

    def forget(self, key: KvKey) -> Steps[bool]:
        entry_key = operating.entry_key(to_kv_key(key))
        was_there: bool = yield Act(lambda work: operating.forget(work, entry_key))
        return was_there

    def _wait(self, call: Callable[[], Receive], patience: float) -> Steps[list[Delivery]]:
        """Looks once more after entering the waiting room, so that no wake-up falls between looking and waiting."""
        until = time.monotonic() + patience
        if rows := (yield call()):
            return to_deliveries(rows)
        while True:
            attempt = call()
            ticket = yield Enter(attempt.topic)
            rows = []
            has_waited = has_looked = False
            try:
                rows = yield attempt
                has_looked = True
                left = until - time.monotonic()
                if rows or left <= 0:
                    return to_deliveries(rows)
                yield Wait(ticket, left)
                has_waited = True
            finally:
                is_unused = not has_looked or (ticket.waiter.is_woken and not has_waited)
                self._room.leave(ticket.waiter, more=is_unused or len(rows) == attempt.max)


def _nothing() -> Steps[list[Any]]:
    return []
    yield  # a generator without steps: there is nothing to ask


def to_send(queue: str, payloads: Iterable[Any], options: SendOptions) -> Send:
    name = check_own_name(queue)
    chosen = listed(payloads, "payloads")
    if len(chosen) > MAX_SEND:
        raise InvalidArgument(f"send_many takes at most {MAX_SEND} messages at once, not {len(chosen)}: send them in several calls")
    return Send(name, prepare_many(name, chosen, options))


def to_receipt(delivery: object) -> Receipt:
    if isinstance(delivery, Delivery):
        return receipt_of_delivery(delivery.receipt)
    if isinstance(delivery, str):
        return read_receipt(delivery)
    raise InvalidReceipt(f"a delivery or its receipt is needed, not {type(delivery).__name__}")


def lease_lost(delivery: Settled) -> LeaseLost:
    name = f"the delivery of {delivery.id}" if isinstance(delivery, Delivery) else "this receipt"
    return LeaseLost(
        f"{name} is no longer current: its lease ran out and the message moved on, or it was settled already; nothing was changed"
    )


def _insist_done(outcomes: list[Outcome], delivery: Settled) -> None:
    if outcomes[0] is not Outcome.DONE:
        raise lease_lost(delivery)


def to_nack(reason: str | None, delay: Duration | None, counts: bool) -> Nack:
    if not isinstance(counts, bool):
        raise InvalidArgument(f"counts must be True or False, not {counts!r}")
    return Nack(_note(reason, "reason"), optional_ms(delay, "delay"), counts)


def to_reject(reason: str | None) -> Reject:
    return Reject(_note(reason, "reason"))


def to_reschedule(delay: Duration, reason: str | None) -> Reschedule:
    return Reschedule(to_ms(delay, "delay"), _note(reason, "reason"))


def to_extend(lease: Duration | None) -> Extend:
    return Extend(optional_ms(lease, "lease", least=1))


def to_changes(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings as Python spells them (seconds) in the words of `Settings` (milliseconds)."""
    changes: dict[str, Any] = {}
    for name, value in settings.items():
        if name not in SettingsOptions.__annotations__:
            raise InvalidArgument(f"unknown setting {name!r}; settings are: {', '.join(SettingsOptions.__annotations__)}")
        if name in _DURATIONS:
            changes[f"{name}_ms"] = optional_ms(value, name, least=_DURATIONS[name])
        elif name == "backoff" and value is not None:
            changes[name] = to_backoff(value)
        else:
            changes[name] = value
    return changes


def listed(values: Iterable[T], what: str) -> list[T]:
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise InvalidArgument(f"{what} must be a list, not {type(values).__name__}")
    return list(values)


def _check_where(where: object) -> None:
    if where is not None and not isinstance(where, Where):
        raise InvalidArgument(f"where must be rowq.Where(…), not {type(where).__name__}")
    if isinstance(where, Where):
        fields = msgspec.structs.asdict(where)
        try:
            msgspec.convert(fields, Where)
        except msgspec.ValidationError as error:
            raise InvalidArgument(f"where is not possible: {error}") from None
        for name, value in fields.items():
            if isinstance(value, str):
                check_text(value, name)


def _receive_max(value: object) -> int:
    if type(value) is not int or not 1 <= value <= MAX_RECEIVE:
        raise InvalidArgument(f"max must be between 1 and {MAX_RECEIVE}, not {value!r}")
    return value


def _check_mode(delivery: object) -> None:
    if delivery not in (None, "at_least_once", "at_most_once"):
        raise InvalidArgument(f"delivery must be at_least_once or at_most_once, not {delivery!r}")


def _note(text: object, what: str) -> str | None:
    """A reason or a name, shortened to what the database should carry."""
    if text is None:
        return None
    if not isinstance(text, str):
        raise InvalidArgument(f"{what} must be text, not {type(text).__name__}")
    clean = mend_text(text)
    return clean if len(clean) <= MAX_NOTE else clean[: MAX_NOTE - 1] + "…"


def _redrive_limit(limit: object) -> int:
    if limit is None:
        return 1 << 62
    if type(limit) is not int or limit < 0:
        raise InvalidArgument(f"limit must be a whole number, not {limit!r}")
    return limit


def _redrive_piece(rate: object) -> int:
    """At a rate, about ten pieces a second, so that consumers see a stream and not a flood."""
    if rate is None:
        return PIECE
    if not isinstance(rate, int | float) or isinstance(rate, bool) or not 0 < rate <= 1_000_000:
        raise InvalidArgument(f"rate must be messages a second, more than 0, not {rate!r}")
    return max(1, min(PIECE, int(rate / 10)))
