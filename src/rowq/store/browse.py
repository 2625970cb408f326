"""Messages of a state in its order, looked at: a page from a cursor on, or all of them one after another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rowq.model.message import Message, State
from rowq.model.page import Page
from rowq.store.dialect import Session
from rowq.store.due_time import FOR_EVER
from rowq.store.row import read_cursor, to_message

_FIRST = (-(1 << 62), -1)
_LAST = (1 << 62, 1 << 62)
_FIRST_GROUP = ("", -1)


def read_page(session: Session, page: Page) -> list[Message]:
    """A cursor is a place in the order of its state: a page goes on behind it, or, with the newest first, before it."""
    if page.after is not None:
        a, b = read_cursor(page.state, page.after)
    else:
        a, b = _LAST if page.newest else _beginning(page.state)
    query = f"browse_{page.state}_newest" if page.newest else f"browse_{page.state}"
    rows = session.rows(
        query,
        queue=page.queue,
        message_key=page.key,
        group_key=page.group,
        text=page.text,
        sent_after=page.sent_after,
        sent_before=page.sent_before,
        a=a,
        b=b,
        limit=page.limit,
    )
    return [to_message(row, page.state) for row in rows]


def read_all(session: Session, queue: str, state: State) -> Iterator[Message]:
    """A dead letter that somebody has received is one still, as everywhere where messages are counted or removed by their state."""
    everything = {"message_key": None, "group_key": None, "text": None, "sent_after": None, "sent_before": None, "limit": FOR_EVER}
    for place in (State.LEASED, State.DEAD) if state is State.DEAD else (state,):
        a, b = _beginning(place)
        for row in session.stream(f"browse_{place}", queue=queue, a=a, b=b, **everything):
            message = to_message(row, place)
            if place is not State.LEASED or (message.reason is None) == (state is State.LEASED):
                yield message


def _beginning(state: State) -> tuple[Any, int]:
    return _FIRST_GROUP if state is State.BLOCKED else _FIRST
