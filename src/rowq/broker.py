"""The broker: one method per verb. AsyncBroker (async_broker.py) is the same for event loops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar, Unpack

from rowq.deprecation import warn_renamed
from rowq.engine.arguments import Settled, to_extend, to_nack, to_reject, to_reschedule
from rowq.engine.bulk import Progress
from rowq.engine.engine import Engine
from rowq.engine.maintenance import MaintenanceResult
from rowq.engine.within import Within
from rowq.model.access import ApiKey
from rowq.model.duration import Duration
from rowq.model.failure import Failures
from rowq.model.lifecycle import Ack, NackLimit
from rowq.model.member import DEAD_AFTER, ConsumerLook, Member, Membership, Share
from rowq.model.message import BrowseOptions, Delivery, Draft, Event, KvEntry, KvKey, Message, Outcome, Payload, SendOptions, Stats, Where
from rowq.model.queue import DeliveryMode, Origin, Policy, Settings, SettingsOptions
from rowq.model.stream import Stream
from rowq.store.dialect import Finding
from rowq.worker.consumer import Consumer
from rowq.worker.plan import ConsumerOptions, Process, to_plan
from rowq.worker.producer import Producer

P = ParamSpec("P")
T = TypeVar("T")


class Broker:
    """The queue, in process. Created by `rowq.connect(url)`; may be used from any number of threads.

    >>> import rowq
    >>> with rowq.connect("sqlite:///jobs.db") as broker:  # doctest: +SKIP
    ...     broker.send("emails", {"to": "ada@example.com"})
    ...     for delivery in broker.receive("emails", max=10, wait=20):
    ...         broker.ack(delivery)
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._verbs = engine.verbs
        self._drive = engine.driver.drive

    def send(self, queue: str, payload: Payload, **options: Unpack[SendOptions]) -> str:
        """Puts a message into a queue, which is created if it does not exist; returns its id once it is on disk.

        Durations are seconds or a timedelta. Options:
            key=None: replaces the waiting message of this key, if there is one
            group=None: messages of a group are delivered one at a time, in order
            priority=0: higher goes first
            delay=0: delivered only after this
            at=None: delivered only from this moment on, a datetime with a timezone; the past means now
            ttl=None: expires after this; None: as the queue is configured
            deadline=None: must be finished within this; with at-most-once it is not delivered later
            max_attempts=None: deliveries before it is a dead letter, 0 for no limit; None: as the queue is configured, 5
            backoff=None: before each retry, a list of seconds, rowq.linear(…) or rowq.exponential(…); None: as the queue is configured
            headers=None: text by name, kept with the payload
            keys_if_undelivered=None: keeps the payload under these keys if it dies
            id=None: an id of your own; a second message with that id in the queue is refused with IdTaken
        """
        return self._drive(self._verbs.send(queue, payload, options))

    def send_many(self, queue: str, payloads: Iterable[Payload | Draft], **options: Unpack[SendOptions]) -> list[str]:
        """All of them or, if one is refused, none. The options apply to every payload that is not a draft."""
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
        """Messages of a queue, leased to the caller; `<queue>.dlq` means its dead letters. A queue that does not exist yet is empty.

        Durations are seconds or a timedelta. Options:
            max=1: at most this many, up to 1,000
            wait=0: how long to wait for the first
            lease=None: how long the caller holds them; None: as the queue is configured, 30 seconds
            consumer=None: a name, kept with the lease and in the audit
            delivery=None: "at_least_once" or "at_most_once" for these messages; None: as the queue is configured, at least once
            share=None: (index, count) of a registered consumer, which prefers its own share
        """
        return self._drive(self._verbs.receive(queue, max, wait, lease, consumer, delivery, share))

    def ack(self, delivery: Settled) -> None:
        """Done: the message is finished. Raises LeaseLost if you no longer hold it."""
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
        """Failed: it returns after its backoff, or dies if its attempts are used up. `counts=False`: returns at once, uncounted.

        `limit="deadline"`: the deadline ends its retries as well.
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
        """Registers a new consumer of a queue, alive as long as it sends heartbeats; gives its share of the messages."""
        return self._drive(self._verbs.register(queue, dead_after))

    def beat(self, queue: str, id: str, *, dead_after: Duration = DEAD_AFTER, remove_dead: bool = False) -> Membership:
        """Sends a consumer's heartbeat, and gives its current share. Raises ConsumerGone if it was considered dead: register again."""
        return self._drive(self._verbs.beat(queue, id, dead_after, remove_dead))

    def unregister(self, queue: str, id: str) -> None:
        """Removes the consumer; others take over its share."""
        self._drive(self._verbs.unregister(queue, id))

    def producer(self, queue: str, *, batch_size: int = 1, linger: Duration = 0.05, **options: Unpack[SendOptions]) -> Producer:
        """Sends messages in batches: when one is full, or its first message has waited for `linger`. Close it, or use `with`."""
        return Producer(self._engine, queue, batch_size, linger, options)

    def consumer(self, queue: str, process: Process, **options: Unpack[ConsumerOptions]) -> Consumer:
        """Calls `process` with each delivery, and settles it: `run()` it, or `start()` and `stop()`, or use `with`.

        If it returns, the message is acked; if it raises, the message returns after its backoff, and dies when its attempts are used up.
        Durations are seconds or a timedelta. Options:
            concurrency=1: how many messages it processes at the same time, each in a thread or a task
            batch_size=None: how many it requests at once, up to 1,000; None: as many as `concurrency`
            partitioned=False: whether it prefers its own share of the messages to those of other consumers
            delivery="at_least_once": or "at_most_once", what becomes of a message whose consumer died
            lease=None: how long its leases last before it extends them; None: as the queue is configured, 30 seconds
            wait=1: how long one receive waits for messages
            retry=None: when a message returns for which `process` raised; None: after its backoff
            limit="attempts": what ends its retries; with "deadline" its deadline as well
            beat=2: how often it sends a heartbeat
            dead_after=5: after how much silence a consumer is considered dead
            remove_dead_every=5: how many heartbeats pass between two removals of dead consumers
        """
        return Consumer(self._engine, to_plan(queue, process, options))

    def within(self, connection: Any) -> Within:
        """The verbs inside your own open transaction on the same database: they hold if, and only if, you commit.

        Takes a connection of sqlite3, psycopg, PyMySQL or mysqlclient, a Connection or Session of SQLAlchemy, or Django's connection.
        """
        self._engine.check_open()
        return Within(self._engine.store, connection)

    def close(self) -> None:
        """Answers the waiting calls, then closes the database."""
        self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # For operators: inspect, repair, configure queues, keys and streams.

    def get(self, id: str, *, queue: str | None = None) -> Message:
        """One message, whatever its state. `queue` distinguishes messages with the same own id; without it, two of them raise
        AmbiguousId."""
        return self._look(self._engine.insights.get, id, queue)

    def browse(self, queue: str, **options: Unpack[BrowseOptions]) -> list[Message]:
        """A page of messages, without leasing them. `after` is the `cursor` of the last message of the previous page.

        `sent_after` (included) and `sent_before` (not included) are milliseconds since 1970, UTC. Dead letters can also be selected by the
        fields of `Where`.
        """
        return self._look(self._engine.insights.browse, queue, **options)

    def failures(self, queue: str, *, limit: int = 100) -> Failures:
        """Why dead letters died: the newest 10,000, grouped by reason and by errors that mean the same."""
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
        """What operators did to queues (configured, paused, purged …), newest first."""
        return self._look(self._engine.insights.actions, queue, limit)

    def keys(self, prefix: KvKey = ()) -> list[KvEntry]:
        """Payloads of undelivered messages, under the keys that their senders chose."""
        return self._look(self._engine.insights.keys, prefix)

    def forget(self, key: KvKey) -> bool:
        """Removes one such key; False if it did not exist."""
        return self._drive(self._verbs.forget(key))

    def settings(self, queue: str) -> Settings:
        """The settings stored for a queue; None means that the default applies."""
        return self._look(self._engine.insights.settings, queue)

    def policy(self, queue: str) -> Policy:
        """The effective settings of a queue: its own, else the defaults."""
        return self._look(self._engine.insights.policy, queue)

    def origins(self, queue: str) -> dict[str, Origin]:
        """Where the value of each setting of a queue comes from: "queue", "server" (the broker's `defaults`) or "default"."""
        return self._look(self._engine.insights.origins, queue)

    def configure(self, queue: str, **settings: Unpack[SettingsOptions]) -> Settings:
        """Changes settings of a queue; None restores the default. Returns all that are set."""
        return self._drive(self._verbs.configure(queue, dict(settings)))

    def pause(self, queue: str) -> None:
        """Stops deliveries until `resume`; leases and TTLs continue to run."""
        self._drive(self._verbs.pause(queue))

    def resume(self, queue: str) -> None:
        self._drive(self._verbs.resume(queue))

    def delete_queue(self, queue: str) -> None:
        """Removes its messages in every state, and its settings."""
        self._drive(self._verbs.delete_queue(queue))

    def purge(self, queue: str, *, states: Sequence[str] | None = None, progress: Progress | None = None) -> int:
        """Removes waiting messages (ready, scheduled, blocked), or those in the given states. Returns how many."""
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
        """Puts dead letters back into their queue: those named, those that match, or all; at most `rate` per second. Returns how many."""
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
        """Removes dead letters permanently: those named, or those that match; `purge` removes all. Returns how many."""
        return self._drive(self._verbs.delete_dead(queue, ids, where, limit, rate, progress))

    def consumers(self, queue: str, *, dead_after: Duration = DEAD_AFTER) -> list[Member]:
        """The live consumers, the oldest first."""
        return self._drive(self._verbs.consumers(queue, dead_after))

    def all_consumers(self, *, dead_after: Duration = DEAD_AFTER) -> list[ConsumerLook]:
        """The consumers of all queues: registered, or known by the messages they hold; with how many each holds now. A thousand at most."""
        return self._drive(self._verbs.all_consumers(dead_after))

    def streams(self) -> list[Stream]:
        """The streams that take messages in numbered batches (Spark queries do), and what each holds."""
        return self._look(self._engine.insights.streams)

    def revoke_stream(self, name: str) -> int:
        """Returns all that a stream holds to its queues; its query then needs a fresh checkpoint. Returns how many messages."""
        return self._drive(self._verbs.revoke_stream(name))

    def quarantine(self, stream: str, batch: int, ids: Iterable[str], *, reason: str | None = None) -> int:
        """Turns messages of a stream's batch into dead letters; the batch continues without them. Returns how many."""
        return self._drive(self._verbs.quarantine(stream, batch, ids, reason))

    def create_key(self, name: str, *, scopes: Iterable[str], queues: Iterable[str] = ("*",)) -> str:
        """Creates a key to the server. Returns its secret, which is shown only once; scopes are send, receive, admin and metrics."""
        return self._drive(self._verbs.create_key(name, scopes, queues))

    def api_keys(self) -> list[ApiKey]:
        return self._look(self._engine.insights.api_keys)

    def revoke_key(self, name: str) -> None:
        """Servers stop accepting it within two seconds."""
        self._drive(self._verbs.revoke_key(name))

    def maintain(self) -> MaintenanceResult:
        """Runs maintenance now, as the background thread does every second."""
        return self._drive(self._engine.maintenance.run_all())

    def run_maintenance(self, task: str) -> int:
        """Runs one maintenance task, such as `expired`; `rowq maintenance-tasks` lists them. Returns how many messages it touched."""
        return self._drive(self._engine.maintenance_tasks.run(task))

    def sweep(self) -> MaintenanceResult:
        """The old name of `maintain`."""
        warn_renamed("broker.sweep()", "broker.maintain()")
        return self.maintain()

    def run_sweep(self, name: str) -> int:
        """The old name of `run_maintenance`."""
        warn_renamed("broker.run_sweep()", "broker.run_maintenance()")
        return self.run_maintenance(name)

    def doctor(self) -> list[Finding]:
        """Problems with queues on this database, each with advice."""
        return self._look(self._engine.examine)

    def _look(self, function: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        return self._drive(self._verbs.look(function, *arguments, **options))
