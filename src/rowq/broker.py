"""The broker: one method a verb. AsyncBroker (async_broker.py) is the same for event loops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar, Unpack

from rowq.engine.arguments import Settled, to_extend, to_nack, to_reject, to_reschedule
from rowq.engine.bulk import Progress
from rowq.engine.engine import Engine
from rowq.engine.maintenance import Swept
from rowq.engine.operation import Operation, SingleCall
from rowq.engine.within import Within
from rowq.model.access import ApiKey
from rowq.model.failure import Failures
from rowq.model.lifecycle import Ack, NackLimit
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
from rowq.store.dialect import Finding
from rowq.worker.consumer import Consumer
from rowq.worker.plan import ConsumerOptions, Process, to_plan
from rowq.worker.producer import Producer

P = ParamSpec("P")
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
        """Puts a message into a queue, which is made if it is not there; returns its id once it is on disk.

        Durations are seconds or a timedelta. Options:
            key=None: replaces the waiting message of this key, if there is one
            group=None: messages of a group are delivered one at a time, in order
            priority=0: higher goes first
            delay=0: not before this has passed
            at=None: not before this moment, a datetime with a timezone; the past is now
            ttl=None: expires after this; None: as the queue says
            deadline=None: must be done within this; at most once it is not delivered later
            max_attempts=None: deliveries before it is a dead letter, 0 without limit; None: as the queue says, 5
            backoff=None: before each retry, a list of seconds, or rowq.linear(…) or rowq.exponential(…); None: as the queue says
            headers=None: texts by name, kept beside the payload
            keys_if_undelivered=None: keeps the payload under these keys if it dies
            id=None: an id of your own; a second message of that id in the queue is refused with IdTaken
        """
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
        """Messages of a queue, leased to the caller; `<queue>.dlq` means its dead letters. A queue that is not there yet is empty.

        Durations are seconds or a timedelta. Options:
            max=1: at most so many, up to 1,000
            wait=0: how long to wait for the first
            lease=None: how long they are the caller's; None: as the queue says, 30 seconds
            consumer=None: a name, kept with the lease and in the audit
            delivery=None: "at_least_once" or "at_most_once" for these messages; None: as the queue says, at least once
            share=None: (index, count) of a registered consumer that prefers its own share
        """
        return self._drive(self._verbs.receive(queue, max, wait, lease, consumer, delivery, share))

    def ack(self, delivery: Settled) -> None:
        """Done: the message is finished. Raises LeaseLost if it is no longer yours."""
        self._drive(self._verbs.settle(delivery, Ack()))

    def nack(
        self,
        delivery: Settled,
        *,
        reason: str | None = None,
        delay: Duration | None = None,
        counts: bool = True,
        limit: NackLimit = "attempts",
    ) -> None:
        """Failed: it comes back after its backoff, or dies if its attempts are used up. `counts=False`: not my fault, at once.

        `limit="deadline"`: the deadline ends its tries as well.
        """
        self._drive(self._verbs.settle(delivery, to_nack(reason, delay, counts, limit)))

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
        self,
        deliveries: Iterable[Settled],
        *,
        reason: str | None = None,
        delay: Duration | None = None,
        counts: bool = True,
        limit: NackLimit = "attempts",
    ) -> list[Outcome]:
        return self._drive(self._verbs.settle_many(deliveries, to_nack(reason, delay, counts, limit)))

    def reject_many(self, deliveries: Iterable[Settled], *, reason: str | None = None) -> list[Outcome]:
        return self._drive(self._verbs.settle_many(deliveries, to_reject(reason)))

    def reschedule_many(self, deliveries: Iterable[Settled], delay: Duration, *, reason: str | None = None) -> list[Outcome]:
        return self._drive(self._verbs.settle_many(deliveries, to_reschedule(delay, reason)))

    def extend_many(self, deliveries: Iterable[Settled], lease: Duration | None = None) -> list[Outcome]:
        return self._drive(self._verbs.settle_many(deliveries, to_extend(lease)))

    def register(self, queue: str, *, dead_after: Duration = DEAD_AFTER) -> Membership:
        """A new consumer of a queue, alive for as long as it beats; says which share of the messages is its own."""
        return self._drive(self._verbs.register(queue, dead_after))

    def beat(self, queue: str, id: str, *, dead_after: Duration = DEAD_AFTER, remove_dead: bool = False) -> Membership:
        """Says that a consumer is alive, and learns its share of now. Raises ConsumerGone if it was taken for dead: register again."""
        return self._drive(self._verbs.beat(queue, id, dead_after, remove_dead))

    def unregister(self, queue: str, id: str) -> None:
        """The consumer takes its leave; others take over its share."""
        self._drive(self._verbs.unregister(queue, id))

    def producer(self, queue: str, *, batch_size: int = 1, linger: Duration = 0.05, **options: Unpack[SendOptions]) -> Producer:
        """Sends messages in batches, when one is full and when the first of it has waited for `linger`. Close it, or use `with`."""
        return Producer(self._engine, queue, batch_size, linger, options)

    def consumer(self, queue: str, process: Process, **options: Unpack[ConsumerOptions]) -> Consumer:
        """Calls `process` with each delivery, and settles it: `run()` it, or `start()` and `stop()`, or use `with`.

        What returns is acked; what raises comes back after its backoff, and is a dead letter when its attempts are used up.
        Durations are seconds or a timedelta. Options:
            concurrency=1: how many messages it works on at the same time, each in a thread or a task
            batch_size=None: how many it asks for at once, up to 1,000; None: as many as `concurrency`
            partitioned=False: whether it prefers its own share of the messages to those of other consumers
            delivery="at_least_once": or "at_most_once", what becomes of a message whose consumer died
            lease=None: how long messages are its own before it extends that; None: as the queue says, 30 seconds
            wait=1: how long one look waits for messages
            retry=None: when a message comes back for which `process` raised; None: after its backoff
            limit="attempts": what ends its tries; with "deadline" its deadline as well
            beat=2: how often it says that it is alive
            dead_after=5: after how much silence a consumer is taken for dead
            remove_dead_every=5: with how many beats it removes the dead once
        """
        return Consumer(self._engine, to_plan(queue, process, options))

    def within(self, connection: Any) -> Within:
        """The verbs inside your own open transaction on the same database: they hold if, and only if, you commit.

        Takes a connection of sqlite3, psycopg, PyMySQL or mysqlclient, a Connection or Session of SQLAlchemy, or Django's connection.
        """
        self._engine.check_open()
        return Within(self._engine.store, connection)

    def close(self) -> None:
        """Answers what is waiting, then lets go of the database."""
        self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # What operators do: look, repair, set up queues, keys and streams.

    def get(self, id: str, *, queue: str | None = None) -> Message:
        """One message, whatever its state. `queue` tells apart messages of the same own id; without it, two of them are AmbiguousId."""
        return self._look(self._engine.insights.get, id, queue)

    def browse(self, queue: str, **options: Unpack[BrowseOptions]) -> list[Message]:
        """A page of messages, looked at and not taken. `after` is the `cursor` of the last message of the page before.

        `sent_after` (that very moment included) and `sent_before` (not included) are milliseconds since 1970, UTC.
        """
        return self._look(self._engine.insights.browse, queue, **options)

    def failures(self, queue: str, *, limit: int = 100) -> Failures:
        """Why dead letters died: the newest 10,000, put together by reason and by errors that mean the same."""
        return self._look(self._engine.insights.failures, queue, limit=limit)

    def walk(self, queue: str | None = None, *, states: Sequence[str] | None = None) -> Iterator[Message]:
        """Every message (of a queue) as of this moment, one after another, in constant memory."""
        self._engine.check_open()
        return self._engine.insights.walk(queue, states)

    def stats(self, queue: str) -> Stats:
        return self._look(self._engine.insights.stats, queue)

    def queues(self) -> list[Stats]:
        return self._look(self._engine.insights.queues)

    def audit(self, id: str, *, queue: str | None = None) -> list[Event]:
        """What happened to a message, from the first event to the last. `queue` as in `get`."""
        return self._look(self._engine.insights.audit, id, queue)

    def actions(self, queue: str | None = None, *, limit: int = 100) -> list[Event]:
        """What operators did to queues (configured, paused, purged …), the newest first."""
        return self._look(self._engine.insights.actions, queue, limit)

    def keys(self, prefix: KvKey = ()) -> list[KvEntry]:
        """Payloads of undelivered messages, under the keys that their senders chose."""
        return self._look(self._engine.insights.keys, prefix)

    def forget(self, key: KvKey) -> bool:
        """Removes one such key; False if it was not there."""
        return self._drive(self._verbs.forget(key))

    def settings(self, queue: str) -> Settings:
        """What was set on a queue; what is None there follows the defaults."""
        return self._look(self._engine.insights.settings, queue)

    def policy(self, queue: str) -> Policy:
        """What holds for a queue: its settings, and the defaults where nothing is set."""
        return self._look(self._engine.insights.policy, queue)

    def origins(self, queue: str) -> dict[str, Origin]:
        """Where each setting of a queue gets its value from: "queue", "server" (the broker's `defaults`) or "default"."""
        return self._look(self._engine.insights.origins, queue)

    def configure(self, queue: str, **settings: Unpack[SettingsOptions]) -> Settings:
        """Changes settings of a queue; None goes back to the default. Returns all that is set."""
        return self._drive(self._verbs.configure(queue, dict(settings)))

    def pause(self, queue: str) -> None:
        """Nobody receives from it until `resume`; leases and TTLs run on."""
        self._drive(self._verbs.pause(queue))

    def resume(self, queue: str) -> None:
        self._drive(self._verbs.resume(queue))

    def delete_queue(self, queue: str) -> None:
        """Removes its messages in every state, and its settings."""
        self._drive(self._verbs.delete_queue(queue))

    def purge(self, queue: str, *, states: Sequence[str] | None = None, progress: Progress | None = None) -> int:
        """Removes messages that wait (ready, scheduled, blocked), or those of the states named. Returns how many."""
        return self._drive(self._verbs.purge(queue, states, progress))

    def delete(self, id: str, *, queue: str | None = None) -> None:
        """Removes one message, whatever its state. `queue` as in `get`."""
        self._drive(self._verbs.delete(id, queue))

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

    def delete_dead(
        self,
        queue: str,
        *,
        ids: Iterable[str] | None = None,
        where: Where | None = None,
        limit: int | None = None,
        rate: float | None = None,
        progress: Progress | None = None,
    ) -> int:
        """Removes dead letters for good: those named, or those that match; `purge` removes all. Returns how many."""
        return self._drive(self._verbs.delete_dead(queue, ids, where, limit, rate, progress))

    def consumers(self, queue: str, *, dead_after: Duration = DEAD_AFTER) -> list[Member]:
        """Those that are alive, the oldest first."""
        return self._drive(self._verbs.consumers(queue, dead_after))

    def all_consumers(self, *, dead_after: Duration = DEAD_AFTER) -> list[ConsumerLook]:
        """Who takes messages, of all queues: registered, or known by what it holds; with how many each has now. A thousand at most."""
        return self._drive(self._verbs.all_consumers(dead_after))

    def streams(self) -> list[Stream]:
        """Who takes messages in numbered batches (Spark queries do), and what each holds."""
        return self._look(self._engine.insights.streams)

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
        return self._look(self._engine.insights.api_keys)

    def revoke_key(self, name: str) -> None:
        """Servers stop to accept it within two seconds."""
        self._drive(self._verbs.revoke_key(name))

    def sweep(self) -> Swept:
        """Does at once what time has made necessary, as the background upkeep does every second."""
        return self._drive(self._engine.upkeep.sweep())

    def run_sweep(self, name: str) -> int:
        """One of its parts alone, such as `expired`; `rowq sweeps` lists them. Returns how many messages it was about."""
        return self._drive(self._engine.sweeps.run(name))

    def doctor(self) -> list[Finding]:
        """What hurts queues on this database, each with what to do."""
        return self._look(self._engine.examine)

    def _drive(self, steps: Operation[T] | SingleCall[Any, T]) -> T:
        return self._engine.driver.drive(steps)

    def _look(self, function: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        return self._drive(self._verbs.look(function, *arguments, **options))
