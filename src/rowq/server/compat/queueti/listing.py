"""queue-ti's listings of topics: counts by status, and pages of messages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Annotated

from msgspec import Meta, Struct

from rowq.engine.insights import Insights
from rowq.errors import MessageNotFound, QueueNotFound
from rowq.model.message import Message, State, Stats
from rowq.model.queue import dead_topic, split_name
from rowq.server.compat.queueti.message import MessageBody, status_of, to_body

_LIVING = (State.READY, State.SCHEDULED, State.BLOCKED, State.LEASED)


class PageQuery(Struct, frozen=True):
    """`topic` may name dead letters; without it, all topics are listed."""

    topic: str | None = None
    limit: Annotated[int, Meta(ge=1, le=200)] = 50
    offset: Annotated[int, Meta(ge=0, le=1_000_000)] = 0


class Page(Struct):
    items: list[MessageBody]
    total: int
    limit: int
    offset: int


class StatusCount(Struct):
    topic: str
    status: str
    count: int


def counts(insights: Insights, stats: Stats) -> list[StatusCount]:
    """Counts of a topic and of its dead letters; zeros are left out."""
    ends = insights.ends(stats.queue)
    dead = dead_topic(stats.queue)
    found = (
        StatusCount(stats.queue, "pending", stats.ready + stats.scheduled + stats.blocked),
        StatusCount(stats.queue, "processing", stats.leased),
        StatusCount(stats.queue, "failed", ends.failed),
        StatusCount(stats.queue, "expired", ends.expired),
        StatusCount(dead, "pending", stats.dead - ends.dead_leased - ends.dead_for_good),
        StatusCount(dead, "processing", ends.dead_leased),
        StatusCount(dead, "failed", ends.dead_for_good),
    )
    return [each for each in found if each.count > 0]


def page(insights: Insights, queues: list[str], query: PageQuery) -> Page:
    """Topic by topic, in delivery order. Acked messages are left out, as in queue-ti, even if the queue keeps them."""
    wanted = None if query.topic is None else split_name(query.topic)
    known = [count for stats in _stats(insights, queues) for count in counts(insights, stats) if wanted in (None, split_name(count.topic))]
    topics: dict[tuple[str, bool], set[str]] = {}
    for count in known:
        topics.setdefault(split_name(count.topic), set()).add(count.status)
    found = (message for (queue, is_dead), held in topics.items() for message in _messages(insights, queue, is_dead=is_dead, held=held))
    shown = list(islice(found, query.offset, query.offset + query.limit))
    items = [to_body(message, insights.policy(message.queue), changed_at(insights, message)) for message in shown]
    return Page(items, sum(count.count for count in known), query.limit, query.offset)


def _stats(insights: Insights, queues: list[str]) -> Iterator[Stats]:
    for queue in queues:
        with suppress(QueueNotFound):  # deleted meanwhile
            yield insights.stats(queue)


def changed_at(insights: Insights, message: Message) -> int:
    """When a message was last replaced or returned, from the audit; 0 without an audit, or if the message is gone."""
    with suppress(MessageNotFound):
        return max((event.at for event in insights.audit(message.id, message.queue)), default=0)
    return 0


def _messages(insights: Insights, queue: str, *, is_dead: bool, held: set[str]) -> Iterator[Message]:
    """The history is long and mostly acked, so it is read only if it is known to hold other messages."""
    states = (State.DEAD, State.LEASED) if is_dead else _LIVING
    if not is_dead and not held.isdisjoint(("failed", "expired")):
        states = (*states, State.FINISHED)
    for message in insights.walk(queue, states):
        if (message.reason is not None) == is_dead and status_of(message) != "deleted":
            yield message
