"""The broker: one method a verb. Those of operators are in operating.py; AsyncBroker (async_broker.py) is the same for event loops."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self, Unpack

from rowq.arguments import Settled, to_extend, to_nack, to_reject, to_reschedule
from rowq.model.lifecycle import Ack, NackLimit
from rowq.model.member import DEAD_AFTER, Membership, Share
from rowq.model.message import Delivery, Draft, Duration, Outcome, Payload, SendOptions
from rowq.model.queue import DeliveryMode
from rowq.operating import Operating
from rowq.within import Within
from rowq.workers.consumer import Consumer
from rowq.workers.plan import ConsumerOptions, Process, to_plan
from rowq.workers.producer import Producer


class Broker(Operating):
    """The queue, in process. Made by `rowq.connect(url)`; may be used from any number of threads.

    >>> import rowq
    >>> with rowq.connect("sqlite:///jobs.db") as broker:  # doctest: +SKIP
    ...     broker.send("emails", {"to": "ada@example.com"})
    ...     for delivery in broker.receive("emails", max=10, wait=20):
    ...         broker.ack(delivery)
    """

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
