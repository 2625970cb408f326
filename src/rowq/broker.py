"""The broker: one method a verb. AsyncBroker (async_broker.py) is the same for event loops."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from rowq.arguments import Settled, to_extend, to_nack, to_reject, to_reschedule
from rowq.engine import Engine
from rowq.model.access import ApiKey
from rowq.model.failure import Failures
from rowq.model.lifecycle import Ack
from rowq.model.member import DEAD_AFTER, ConsumerLook, Member, Membership, Share
from rowq.model.message import (
    BrowseOptions,
    Delivery,
    Draft,
    Duration,
    Event,
    KvEntry,
    KvKey,
    Message,
    Outcome,
    Payload,
    SendOptions,
    SettingsOptions,
    Stats,
    Where,
)
from rowq.model.queue import DeliveryMode, Origin, Policy, Settings
from rowq.model.stream import Stream
from rowq.pieces import Progress
from rowq.steps import Ask, Steps
from rowq.store.dialect import Finding
from rowq.upkeep import Swept
from rowq.within import Within
from rowq.workers.consumer import Consumer
from rowq.workers.plan import ConsumerOptions, Process, to_plan
from rowq.workers.producer import Producer

T = TypeVar("T")


class Broker:
    """The queue, in process. Made by `rowq.connect(url)`; may be used from any number of threads.

    >>> import rowq
    >>> with rowq.connect("sqlite:///jobs.db") as broker:  # doctest: +SKIP
    ...     broker.send("emails", {"to": "ada@example.com"})
    ...     for delivery in broker.receive("emails", max=10, wait=20):
    ...         broker.ack(delivery)
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._verbs = engine.verbs

    def send(self, queue: str, payload: Payload, **options: Unpack[SendOptions]) -> str:
        """Puts a message into a queue; returns its id once it is on disk."""
        return self._drive(self._verbs.send(queue, payload, options))

    def send_many(self, queue: str, payloads: Iterable[Payload | Draft], **options: Unpack[SendOptions]) -> list[str]:
        """All of them or, if one is refused, none. The options hold for every payload that is not a draft of its own."""
        return self._drive(self._verbs.send_many(queue, payloads, options))

    def receive(
        self,
        queue: str,
        *,
        max: int = 1,
        wait: Duration = 0,
        lease: Duration | None = None,
        consumer: str | None = None,
        delivery: DeliveryMode | None = None,
        share: Share | None = None,
    ) -> list[Delivery]:
        """Up to `max` messages, leased to you; waits up to `wait` seconds for the first. `<queue>.dlq` gives dead letters."""
        return self._drive(self._verbs.receive(queue, max, wait, lease, consumer, delivery, share))

    def ack(self, delivery: Settled) -> None:
        """Done: the message is finished. Raises LeaseLost if it is no longer yours."""
        self._drive(self._verbs.settle(delivery, Ack()))

    def nack(self, delivery: Settled, *, reason: str | None = None, delay: Duration | None = None, counts: bool = True) -> None:
        """Failed: it comes back after its backoff, or dies if its attempts are used up. `counts=False`: not my fault, at once."""
        self._drive(self._verbs.settle(delivery, to_nack(reason, delay, counts)))

    def reject(self, delivery: Settled, *, reason: str | None = None) -> None:
        """It can never succeed: a dead letter at once."""
        self._drive(self._verbs.settle(delivery, to_reject(reason)))

    def reschedule(self, delivery: Settled, delay: Duration, *, reason: str | None = None) -> None:
        """Later, as if never tried."""
        self._drive(self._verbs.settle(delivery, to_reschedule(delay, reason)))

    def extend(self, delivery: Settled, lease: Duration | None = None) -> int:
        """More time: the lease runs from now. Returns when it ends; the receipt stays valid."""
        return self._drive(self._verbs.extend(delivery, lease))

    def ack_many(self, deliveries: Iterable[Settled]) -> list[Outcome]:
        return self._drive(self._verbs.settle_many(deliveries, Ack()))

    def nack_many(
        self, deliveries: Iterable[Settled], *, reason: str | None = None, delay: Duration | None = None, counts: bool = True
    ) -> list[Outcome]:
        return self._drive(self._verbs.settle_many(deliveries, to_nack(reason, delay, counts)))

    def reject_many(self, deliveries: Iterable[Settled], *, reason: str | None = None) -> list[Outcome]:
        return self._drive(self._verbs.settle_many(deliveries, to_reject(reason)))

    def reschedule_many(self, deliveries: Iterable[Settled], delay: Duration, *, reason: str | None = None) -> list[Outcome]:
        return self._drive(self._verbs.settle_many(deliveries, to_reschedule(delay, reason)))

    def extend_many(self, deliveries: Iterable[Settled], lease: Duration | None = None) -> list[Outcome]:
        return self._drive(self._verbs.settle_many(deliveries, to_extend(lease)))

    def get(self, id: str) -> Message:
        """One message, wherever it is."""
        return self._drive(self._verbs.look(self._engine.insights.get, id))

    def browse(self, queue: str, **options: Unpack[BrowseOptions]) -> list[Message]:
        """A page of messages, looked at and not taken. `after` is the `cursor` of the last message of the page before.

        `sent_after` (that very moment included) and `sent_before` (not included) are milliseconds since 1970, UTC.
        """
        return self._drive(self._verbs.look(self._engine.insights.browse, queue, **options))

    def failures(self, queue: str, *, limit: int = 100) -> Failures:
        """Why dead letters died: the newest 10,000, put together by reason and by errors that mean the same."""
        return self._drive(self._verbs.look(self._engine.insights.failures, queue, limit=limit))

    def walk(self, queue: str | None = None, *, states: Sequence[str] | None = None) -> Iterator[Message]:
        """Every message (of a queue) as of this moment, one after another, in constant memory."""
        self._engine.check_open()
        return self._engine.insights.walk(queue, states)

    def stats(self, queue: str) -> Stats:
        return self._drive(self._verbs.look(self._engine.insights.stats, queue))

    def queues(self) -> list[Stats]:
        return self._drive(self._verbs.look(self._engine.insights.queues))

    def audit(self, id: str) -> list[Event]:
        """What happened to a message, from the first event to the last."""
        return self._drive(self._verbs.look(self._engine.insights.audit, id))

    def actions(self, queue: str | None = None, *, limit: int = 100) -> list[Event]:
        """What operators did to queues (configured, paused, purged …), the newest first."""
        return self._drive(self._verbs.look(self._engine.insights.actions, queue, limit))

    def keys(self, prefix: KvKey = ()) -> list[KvEntry]:
        """Payloads of undelivered messages, under the keys that their senders chose."""
        return self._drive(self._verbs.look(self._engine.insights.keys, prefix))

    def forget(self, key: KvKey) -> bool:
        """Removes one such key; False if it was not there."""
        return self._drive(self._verbs.forget(key))

    def settings(self, queue: str) -> Settings:
        """What was set on a queue; what is None there follows the defaults."""
        return self._drive(self._verbs.look(self._engine.insights.settings, queue))

    def policy(self, queue: str) -> Policy:
        """What holds for a queue: its settings, and the defaults where nothing is set."""
        return self._drive(self._verbs.look(self._engine.insights.policy, queue))

    def origins(self, queue: str) -> dict[str, Origin]:
        """Where each setting of a queue gets its value from: "queue", "server" (the broker's `defaults`) or "default"."""
        return self._drive(self._verbs.look(self._engine.insights.origins, queue))

    def configure(self, queue: str, **settings: Unpack[SettingsOptions]) -> Settings:
        """Changes settings of a queue; None goes back to the default. Returns all that is set."""
        return self._drive(self._verbs.configure(queue, dict(settings)))

    def pause(self, queue: str) -> None:
        """Nobody receives from it until `resume`; leases and TTLs run on."""
        self._drive(self._verbs.configure(queue, {"paused": True}))

    def resume(self, queue: str) -> None:
        self._drive(self._verbs.configure(queue, {"paused": None}))

    def delete_queue(self, queue: str) -> None:
        """Removes its messages in every state, and its settings."""
        self._drive(self._verbs.delete_queue(queue))

    def purge(self, queue: str, *, states: Sequence[str] | None = None, progress: Progress | None = None) -> int:
        """Removes messages that wait (ready, scheduled, blocked), or those of the states named. Returns how many."""
        return self._drive(self._verbs.purge(queue, states, progress))

    def delete(self, id: str) -> None:
        """Removes one message, wherever it is."""
        self._drive(self._verbs.delete(id))

    def redrive(
        self,
        queue: str,
        *,
        ids: Iterable[str] | None = None,
        where: Where | None = None,
        limit: int | None = None,
        rate: float | None = None,
        progress: Progress | None = None,
    ) -> int:
        """Dead letters back into their queue: those named, those that match, or all; at most `rate` a second. Returns how many."""
        return self._drive(self._verbs.redrive(queue, ids, where, limit, rate, progress))

    def register(self, queue: str, *, dead_after: Duration = DEAD_AFTER) -> Membership:
        """A new consumer of a queue, alive for as long as it beats; says which share of the messages is its own."""
        return self._drive(self._verbs.register(queue, dead_after))

    def beat(self, queue: str, id: str, *, dead_after: Duration = DEAD_AFTER, remove_dead: bool = False) -> Membership:
        """Says that a consumer is alive, and learns its share of now. Raises ConsumerGone if it was taken for dead: register again."""
        return self._drive(self._verbs.beat(queue, id, dead_after, remove_dead))

    def unregister(self, queue: str, id: str) -> None:
        """The consumer takes its leave; others take over its share."""
        self._drive(self._verbs.unregister(queue, id))

    def consumers(self, queue: str, *, dead_after: Duration = DEAD_AFTER) -> list[Member]:
        """Those that are alive, the oldest first."""
        return self._drive(self._verbs.consumers(queue, dead_after))

    def all_consumers(self, *, dead_after: Duration = DEAD_AFTER) -> list[ConsumerLook]:
        """Who takes messages, of all queues: registered, or known by what it holds; with how many each has now. A thousand at most."""
        return self._drive(self._verbs.all_consumers(dead_after))

    def producer(self, queue: str, *, batch_size: int = 1, linger: Duration = 0.05, **options: Unpack[SendOptions]) -> Producer:
        """Sends messages in batches, when one is full and when the first of it has waited for `linger`. Close it, or use `with`."""
        return Producer(self._engine, queue, batch_size, linger, options)

    def consumer(self, queue: str, process: Process, **options: Unpack[ConsumerOptions]) -> Consumer:
        """Calls `process` with each delivery, and settles it: `run()` it, or `start()` and `stop()`, or use `with`."""
        return Consumer(self._engine, to_plan(queue, process, options))

    def streams(self) -> list[Stream]:
        """Who takes messages in numbered batches (Spark queries do), and what each holds."""
        return self._drive(self._verbs.look(self._engine.insights.streams))

    def revoke_stream(self, name: str) -> int:
        """Sends all that a stream holds back to its queues; its query needs a fresh checkpoint then. Returns how many messages."""
        return self._drive(self._verbs.revoke_stream(name))

    def quarantine(self, stream: str, batch: int, ids: Iterable[str], *, reason: str | None = None) -> int:
        """Makes messages of a stream's batch dead letters; the batch goes on without them. Returns how many."""
        return self._drive(self._verbs.quarantine(stream, batch, ids, reason))

    def create_key(self, name: str, *, scopes: Iterable[str], queues: Iterable[str] = ("*",)) -> str:
        """A key to the server. Returns its secret, which is shown this once; scopes are send, receive, admin and metrics."""
        return self._drive(self._verbs.create_key(name, scopes, queues))

    def api_keys(self) -> list[ApiKey]:
        return self._drive(self._verbs.look(self._engine.insights.api_keys))

    def revoke_key(self, name: str) -> None:
        """Servers stop to accept it within two seconds."""
        self._drive(self._verbs.revoke_key(name))

    def within(self, connection: Any) -> Within:
        """The verbs inside your own open transaction on the same database: they hold if, and only if, you commit."""
        self._engine.check_open()
        return Within(self._engine.store, connection)

    def sweep(self) -> Swept:
        """Does at once what time has made necessary, as the background upkeep does every second."""
        return self._drive(self._engine.upkeep.sweep())

    def run_sweep(self, name: str) -> int:
        """One of its parts alone, such as `expired`; `rowq sweeps` lists them. Returns how many messages it was about."""
        return self._drive(self._engine.sweeps.run(name))

    def doctor(self) -> list[Finding]:
        """What hurts queues on this database, each with what to do."""
        return self._drive(self._verbs.look(self._engine.examine))

    def close(self) -> None:
        """Answers what is waiting, then lets go of the database."""
        self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _drive(self, steps: Steps[T] | Ask[Any, T]) -> T:
        return self._engine.driver.drive(steps)
