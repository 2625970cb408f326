"""Sends messages with everything that can be said of one. Each carries a name, by which it is known also when the answer was lost."""

from __future__ import annotations

import random
from uuid import UUID

import rowq
from trust.torture.ways.hands import Caller, Hands

SIZES = (1,) * 57 + (2, 3, 5)
"""Most sends are single ones: a million calls are to be many calls, not many messages."""
GROUPS, KEYS = 100, 150
DELAYS = (0,) * 30 + (0.05, 0.05, 0.05, 1, 1, 1, 3)
"""Seconds; the longest is one of which hosts that differ by a second can say whether it was kept."""


def produce(hands: Hands, caller: Caller, choose: random.Random, name: str) -> None:
    """One call. The name of a message is that of its call, and its place in it."""
    queue = choose.choice(hands.queues)
    call = f"{name}.{caller.page.call + 1}"
    drafts = [_draft(choose, queue, f"{call}.{place}") for place in range(choose.choice(SIZES))]
    if not hands.tells_ids:
        drafts = [rowq.Draft(draft.payload, id=_own_id(choose), delay=draft.delay) for draft in drafts]
    verb = "send" if len(drafts) == 1 else "send_many"
    said = [_said(draft) for draft in drafts]
    caller.call(verb, [queue, said], lambda: hands.send(queue, drafts), lambda ids: [ids])


def _draft(choose: random.Random, queue: str, name: str) -> rowq.Draft:
    return rowq.Draft(
        {"name": name},
        key=f"key-{choose.randrange(KEYS)}" if queue == "keyed" else None,
        group=f"group-{choose.randrange(GROUPS)}" if queue == "grouped" else None,
        priority=choose.choice((0, 0, 0, 0, 5, -5)) if queue != "brief" else 0,
        delay=choose.choice(DELAYS),
        ttl=choose.choice((0.5, 2)) if choose.random() < 0.02 else None,
        id=_own_id(choose) if choose.random() < 0.05 else None,
    )


def _said(draft: rowq.Draft) -> list[object] | None:
    """What the checker has to know of it; of most there is nothing."""
    ttl, delay = (None if span is None else round(float(str(span)) * 1000) for span in (draft.ttl, draft.delay or None))
    said: list[object] = [draft.key, draft.group, draft.id, ttl, delay]
    return said if any(said) else None


def _own_id(choose: random.Random) -> str:
    return str(UUID(int=choose.getrandbits(128), version=4))
