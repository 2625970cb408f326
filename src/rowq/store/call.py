"""What callers ask of the store. Calls that wait together are performed together, in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    """One caller's part: it ends with a result or an error, and belongs to nobody else's fate."""

    __slots__ = ("actor", "error", "result")

    rows = 1
    size = 0
    good_until: float | None = None
    """By `clock.running`: past that its result is worth nothing any more."""

    def __init__(self) -> None:
        self.result: T | None = None
        self.error: BaseException | None = None
        self.actor: str | None = None
        """Who asks, for the audit; None: whoever opened the store."""

    @property
    def would_wait(self) -> bool:
        """Somebody else's transaction stands in its way."""
        return self.error is not None and isinstance(self.error, WouldWait)

    def anew(self) -> Call[T]:
        """As if it had not been tried."""
        self.result = self.error = None
        return self

    def fail(self, error: BaseException) -> None:
        """It was tried for the last time, here at least."""
        self.error = error

    def withdrawn(self) -> Call[T]:
        raise AssertionError(f"the result of {type(self).__name__} does not grow old")


class Send(Call[list[str]]):
    """Puts messages of one queue into it, all or none; gives their ids. The messages are as they will be written: nothing is added later.

    `request` names the request that asks: when it comes a second time, it gets the first one's answer.
    """

    __slots__ = ("is_plain", "messages", "queue", "request", "rows", "size")

    def __init__(self, queue: str, messages: list[Prepared], request: str | None = None) -> None:
        super().__init__()
        self.request = request
        self.queue = queue
        self.messages = messages
        self.rows = len(messages)
        self.size = sum([len(message.payload) for message in messages])
        self.is_plain = all(map(is_plain, messages))
        """Nothing hangs on any of them but priority."""


class Receive(Call[list[Row]]):
    """Leases up to `max` messages of a queue, or of its dead letters, to one consumer; gives rows for `rows.to_deliveries`."""

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
    ) -> None:
        super().__init__()
        self.queue = queue
        self.max = max
        self.rows = max
        self.lease_ms = lease_ms
        self.consumer = consumer
        self.from_dead = from_dead
        self.delivery = delivery
        self.share = share
        """Which messages come first; None: all alike."""
        self.topic = dead_topic(queue) if from_dead else queue
        self.good_until: float | None = None

    def begun(self, at: float, now: int) -> None:
        """It was performed by a transaction that began then, by `clock.running` and by the clock. An answer that took over a quarter
        of the lease is not given: whoever was stopped and continued must not believe that it holds what is another's by now."""
        if self.result:
            lease = (min([row[4] for row in self.result]) - now) / 1000
            self.good_until = at + max(lease / 4, min(lease, 0.25))

    def withdrawn(self) -> Receive:
        """A twin that holds what this one must not give out."""
        twin = Receive(self.queue, self.max, self.lease_ms, self.consumer, from_dead=self.from_dead, delivery=self.delivery)
        twin.result, self.result = self.result, []
        return twin


class Settle(Call[list[Outcome]]):
    """Says one thing about some deliveries. `until` is filled by an extension: the new end of each lease.

    `reaches` says which queues the caller may touch: to it, a delivery from another one is not found.
    """

    __slots__ = ("done", "doubts", "reaches", "receipts", "rows", "settlement", "until")

    def __init__(self, receipts: Sequence[Receipt], settlement: Settlement | Extend) -> None:
        super().__init__()
        self.receipts = receipts
        self.settlement = settlement
        self.rows = len(receipts)
        self.until: dict[int, int] = {}
        self.done: set[Receipt] = set()
        """Those that are acked for good, whatever becomes of the others."""
        self.doubts: tuple[int, ...] = ()
        """The moments of tries whose answer was lost: each may have acked what is gone by now."""
        self.reaches: Callable[[str], bool] | None = None

    @property
    def is_worth_a_sync(self) -> bool:
        """A lost ack or nack only means a redelivery; a lost reject or reschedule would undo somebody's decision."""
        return isinstance(self.settlement, Reject | Reschedule)

    def fail(self, error: BaseException) -> None:
        """What is acked for good stays so: who is told that nothing was written must be able to believe it."""
        if len(self.done) == len(self.receipts):
            self.result = [Outcome.DONE] * len(self.receipts)
        elif (self.done or self.doubts) and not isinstance(error, WouldWait):
            became = "some of these deliveries were acked, and the others failed" if self.done else "it may have been acked, or not"
            self.error = OutcomeUnknown(f"{became}; once the database is well, ack again: {error}")
        else:
            self.error = error

    def cannot_tell(self) -> None:
        """What is gone may have been acked by the try whose answer was lost, or by somebody else who held it since."""
        self.result = None
        self.error = OutcomeUnknown(
            "the connection broke while acking, and a delivery is gone by now: this ack, or another, has settled it"
        )


class Execute(Call[T]):
    """Anything else that writes: operators' actions and sweeps."""

    __slots__ = ("act", "durable")

    def __init__(self, act: Callable[[Transaction], T], *, durable: bool = True) -> None:
        super().__init__()
        self.act = act
        self.durable = durable
