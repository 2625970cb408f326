"""The calls that the store performs. Calls that wait at the same time run in one transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from rowq.errors import OutcomeUnknown
from rowq.ids import Receipt
from rowq.model.draft import Prepared, is_plain
from rowq.model.lifecycle import Extend, Reject, Reschedule, Settlement
from rowq.model.member import Share
from rowq.model.message import Outcome
from rowq.model.queue import DeliveryMode, dead_topic
from rowq.store.dialect import Row
from rowq.store.retry import WouldWait

if TYPE_CHECKING:
    from rowq.store.transaction import Transaction

T = TypeVar("T")


class Call(Generic[T]):
    """One caller's part of a transaction: it ends with its own result or error, independent of the other calls."""

    __slots__ = ("actor", "error", "result")

    rows = 1
    size = 0
    good_until: float | None = None
    """By `clock.running`: after this moment the result is no longer valid."""

    def __init__(self, actor: str | None = None) -> None:
        self.result: T | None = None
        self.error: BaseException | None = None
        self.actor = actor
        """Recorded in the audit; None: the actor that the store was opened with."""

    @property
    def would_wait(self) -> bool:
        """Another transaction holds a lock that this call needs."""
        return self.error is not None and isinstance(self.error, WouldWait)

    def anew(self) -> Call[T]:
        """Resets the call for another attempt."""
        self.result = self.error = None
        return self

    def fail(self, error: BaseException) -> None:
        """Records the error of the last attempt."""
        self.error = error

    def withdrawn(self) -> Call[T]:
        raise AssertionError(f"the result of {type(self).__name__} does not expire")


class Send(Call[list[str]]):
    """Sends messages to one queue, all or none; returns their ids. The messages are written exactly as given.

    `request` is an idempotency key: a repeated request gets the first one's answer.
    """

    __slots__ = ("is_plain", "messages", "queue", "request", "rows", "size")

    def __init__(self, queue: str, messages: list[Prepared], request: str | None = None, actor: str | None = None) -> None:
        super().__init__(actor)
        self.request = request
        self.queue = queue
        self.messages = messages
        self.rows = len(messages)
        self.size = len(messages[0].payload) if self.rows == 1 else sum([len(message.payload) for message in messages])
        self.is_plain = is_plain(messages[0]) if self.rows == 1 else all(map(is_plain, messages))
        """None of the messages has options other than priority."""


def sends_of(messages: Iterable[Prepared], actor: str | None = None) -> list[Send]:
    """One call for each queue, in the order of their names: concurrent transactions then lock queues in the same order."""
    by_queue: defaultdict[str, list[Prepared]] = defaultdict(list)
    for message in messages:
        by_queue[message.queue].append(message)
    return [Send(queue, of_queue, actor=actor) for queue, of_queue in sorted(by_queue.items())]


class Receive(Call[list[Row]]):
    """Leases up to `max` messages of a queue, or of its dead letters, to one consumer; returns rows for `row.to_deliveries`."""

    __slots__ = ("consumer", "delivery", "from_dead", "good_until", "lease_ms", "max", "queue", "rows", "share", "topic")

    def __init__(
        self,
        queue: str,
        max: int,
        lease_ms: int | None,
        consumer: str | None,
        *,
        from_dead: bool,
        delivery: DeliveryMode | None,
        share: Share | None = None,
        actor: str | None = None,
    ) -> None:
        super().__init__(actor)
        self.queue = queue
        self.max = max
        self.rows = max
        self.lease_ms = lease_ms
        self.consumer = consumer
        self.from_dead = from_dead
        self.delivery = delivery
        self.share = share
        """Which messages come first; None: no preference."""
        self.topic = dead_topic(queue) if from_dead else queue
        self.good_until: float | None = None

    def begun(self, at: float, now: int) -> None:
        """Records when the call's transaction began, by `clock.running` (`at`) and by the clock (`now`). A result that took longer than a
        quarter of the lease is withheld: a process that was suspended must not process messages that have been leased again."""
        if self.result:
            lease = (min([row[4] for row in self.result]) - now) / 1000
            self.good_until = at + max(lease / 4, min(lease, 0.25))

    def withdrawn(self) -> Receive:
        """Moves the result into a new call, so that this one does not return it."""
        twin = Receive(self.queue, self.max, self.lease_ms, self.consumer, from_dead=self.from_dead, delivery=self.delivery)
        twin.result, self.result = self.result, []
        return twin


class Settle(Call[list[Outcome]]):
    """Settles or extends deliveries. An extension fills `until` with the new end of each lease.

    `reaches` tells which queues the caller may access: a delivery from any other queue is reported as not found.
    """

    __slots__ = ("done", "doubts", "reaches", "receipts", "rows", "settlement", "until")

    def __init__(self, receipts: Sequence[Receipt], settlement: Settlement | Extend, actor: str | None = None) -> None:
        super().__init__(actor)
        self.receipts = receipts
        self.settlement = settlement
        self.rows = len(receipts)
        self.until: dict[int, int] = {}
        self.done: set[Receipt] = set()
        """Deliveries whose ack is committed, whatever happens to the others."""
        self.doubts: tuple[int, ...] = ()
        """The times of attempts whose answer was lost: each may have acked a delivery that is gone now."""
        self.reaches: Callable[[str], bool] | None = None

    @property
    def is_worth_a_sync(self) -> bool:
        """A lost ack or nack only means a redelivery; a lost reject or reschedule would undo the consumer's decision."""
        return isinstance(self.settlement, Reject | Reschedule)

    def fail(self, error: BaseException) -> None:
        """An error that says nothing was written must be true, so committed acks change the result or the error."""
        if len(self.done) == len(self.receipts):
            self.result = [Outcome.DONE] * len(self.receipts)
        elif (self.done or self.doubts) and not isinstance(error, WouldWait):
            became = "some of these deliveries were acked, and the others failed" if self.done else "it may have been acked, or not"
            self.error = OutcomeUnknown(f"{became}; ack again when the database is available: {error}")
        else:
            self.error = error

    def cannot_tell(self) -> None:
        """A delivery that is gone was acked either by the attempt whose answer was lost or by a later consumer."""
        self.result = None
        self.error = OutcomeUnknown(
            "the connection broke while acking, and a delivery is gone now: this ack or another consumer has settled it"
        )


class Execute(Call[T]):
    """Any other call that writes: operators' actions and maintenance."""

    __slots__ = ("act", "durable")

    def __init__(self, act: Callable[[Transaction], T], *, durable: bool = True) -> None:
        super().__init__()
        self.act = act
        self.durable = durable
