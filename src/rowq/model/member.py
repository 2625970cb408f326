"""Consumers of a queue that know of each other: which are alive, in which order they registered, and which share of messages each has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from uuid import uuid4

import msgspec

from rowq.errors import ConsumerGone, InvalidArgument
from rowq.model.duration import to_ms

DEAD_AFTER = 5.0
"""Seconds of silence after which a consumer is considered dead, unless it chooses otherwise."""
LONGEST_SILENCE_MS = 3_600_000
MOST_SHARES = 10_000
NARROWEST, WIDEST = 100, 2_000
"""How many messages at the head of a queue are examined for those of a share."""

ID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
"""A UUID in lower case, as a pattern."""

_ID = re.compile(ID)

Share = tuple[int, int]
"""(index, count): the messages whose seq modulo `count` is `index`."""


class Membership(msgspec.Struct, frozen=True):
    """A consumer's place among the live consumers of its queue, in the order of registration: its share is (index, count)."""

    id: str
    index: int
    count: int


class Member(msgspec.Struct, frozen=True):
    """A live consumer, as others see it. Times are in milliseconds since 1970, UTC."""

    id: str
    index: int
    born_at: int
    beat_at: int
    """When its last heartbeat arrived."""


class ConsumerLook(msgspec.Struct, frozen=True, kw_only=True):
    """A consumer of a queue: registered, alive or not, or known only by the messages that it holds."""

    queue: str
    id: str | None
    """The id of its registration, or the name it gives when it receives; None for all that give no name."""
    alive: bool | None
    """None if unknown: it is not registered."""
    in_flight: int
    """How many messages it holds now."""
    born_at: int | None = None
    beat_at: int | None = None
    leased_at: int | None = None
    """When it received the latest of the messages that it holds."""


def living(rows: Sequence[tuple[str, int, int]], now: int, dead_after_ms: int) -> list[Member]:
    """The consumers (id, born_at, beat_at) with a recent heartbeat; by age."""
    alive = sorted([(born_at, id, beat_at) for id, born_at, beat_at in rows if is_alive(beat_at, now, dead_after_ms)])
    return [Member(id, index, born_at, beat_at) for index, (born_at, id, beat_at) in enumerate(alive)]


def overview(
    registered: Iterable[tuple[str, str, int, int]],
    held: Mapping[tuple[str, str | None], tuple[int, int]],
    now: int,
    dead_after_ms: int,
) -> list[ConsumerLook]:
    """The registered consumers (queue, id, born_at, beat_at) and those that hold messages, (queue, consumer): (how many, since when). By
    queue and age, the unregistered after the registered, and the dead at the end."""
    rest = dict(held)
    found: list[ConsumerLook] = []
    for queue, id, born_at, beat_at in registered:
        count, leased_at = rest.pop((queue, id), (0, None))
        alive = is_alive(beat_at, now, dead_after_ms)
        look = ConsumerLook(queue=queue, id=id, alive=alive, in_flight=count, born_at=born_at, beat_at=beat_at, leased_at=leased_at)
        found.append(look)
    for (queue, name), (count, leased_at) in rest.items():
        found.append(ConsumerLook(queue=queue, id=name, alive=None, in_flight=count, leased_at=leased_at))
    return sorted(found, key=lambda one: (one.alive is False, one.queue, one.born_at is None, one.born_at or 0, one.id or ""))


def membership(id: str, alive: Sequence[Member]) -> Membership:
    return Membership(id, next(member.index for member in alive if member.id == id), len(alive))


def check_room(queue: str, newcomer: Membership) -> None:
    if newcomer.count > MOST_SHARES:
        raise InvalidArgument(f"the queue {queue!r} has {MOST_SHARES} consumers, which is the maximum: receive without registering")


def is_alive(beat_at: int, now: int, dead_after_ms: int) -> bool:
    return beat_at > now - dead_after_ms


def own_of(share: Share, places: Iterable[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """The places (ranking, position, seq) that belong to the share."""
    index, count = share
    return [place for place in places if place[2] % count == index]


def width(share: Share, wanted: int) -> int:
    """How many messages to examine to find `wanted` of a share: enough if all shares are equally full, within bounds. If the messages of
    one share fill the whole range, its consumer has fallen behind, and others take what it leaves."""
    return min(WIDEST, max(NARROWEST, wanted * share[1]))


def to_share(share: object, *, from_dead: bool = False) -> Share | None:
    if share is None:
        return None
    if from_dead:
        raise InvalidArgument("dead letters are not received in shares: leave out the share")
    if isinstance(share, tuple | list) and len(share) == 2:
        index, count = share
        if type(index) is int and type(count) is int and 0 <= index < count <= MOST_SHARES:
            return index, count
    raise InvalidArgument(f"share must be (index, count), where 0 <= index < count <= {MOST_SHARES}, not {share!r}")


def to_silence(dead_after: object) -> int:
    return to_ms(dead_after, "dead_after", least=1, most=LONGEST_SILENCE_MS)


def new_consumer_id(id: object = None) -> str:
    """The given id, or a new unique one."""
    if id is None:
        return str(uuid4())
    if not is_consumer_id(id):
        raise InvalidArgument(f"the id of a consumer is a UUID in lower case, not {id!r}")
    return str(id)


def is_consumer_id(id: object) -> bool:
    if not isinstance(id, str):
        raise InvalidArgument(f"the id of a consumer is text, not {type(id).__name__}")
    return _ID.fullmatch(id) is not None


def consumer_gone(queue: str, id: str) -> ConsumerGone:
    return ConsumerGone(f"the queue {queue!r} has no living consumer {id}: it was silent for too long, or has left; register again")
