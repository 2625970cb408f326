"""Redriving from afar: in one request, or page by page where somebody watches or wants it slowly."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import urlencode

import msgspec

from rowq.arguments import check_where, listed, redrive_limit, redrive_piece
from rowq.client.bodies import to_message
from rowq.client.exchange import Exchange, Kind, look, reader
from rowq.model.failure import matches
from rowq.model.message import Where
from rowq.model.queue import split_name
from rowq.pieces import Progress
from rowq.steps import Sleep, Steps
from rowq.store.finding import check_id
from rowq.wire import Count, Messages

Source = Callable[[], Steps[tuple[list[str], bool]]]
"""Gives the ids of the next piece, and whether it is the last."""

_counted = reader(Count)
_page = reader(Messages)


def redrive(
    queue: str, ids: Iterable[str] | None, where: Where | None, limit: int | None, rate: float | None, progress: Progress | None
) -> Steps[int]:
    name, _ = split_name(queue)
    most, piece = redrive_limit(limit), redrive_piece(rate)
    chosen = None if ids is None else list(dict.fromkeys(check_id(id) for id in listed(ids, "ids")))
    check_where(where)
    filters = where or Where()
    asked = {field: value for field, value in msgspec.structs.asdict(filters).items() if value is not None}
    if chosen is None and rate is None and progress is None:
        count: int = yield _redrive(name, asked if limit is None else {**asked, "limit": limit})
        return count
    source = _pages(name, filters, piece) if chosen is None else _parts(chosen, piece)
    return (yield from _in_pieces(name, asked, source, most, rate, progress))


def _in_pieces(queue: str, asked: dict[str, Any], source: Source, most: int, rate: float | None, progress: Progress | None) -> Steps[int]:
    """By id, so that a message which dies again meanwhile is not taken twice; and only if it is still one that is meant."""
    started, count, is_last = time.monotonic(), 0, False
    while count < most and not is_last:
        ids, is_last = yield from source()
        if ids:
            count += yield _redrive(queue, {**asked, "ids": ids[: most - count]})
        if progress is not None:
            progress(count)
        if rate is not None and not is_last:
            yield Sleep(max(0.0, started + count / rate - time.monotonic()))
    return count


def _parts(ids: list[str], piece: int) -> Source:
    position = 0

    def next_part() -> Steps[tuple[list[str], bool]]:
        nonlocal position
        start, position = position, position + piece
        return ids[start:position], position >= len(ids)
        yield  # nothing has to be asked

    return next_part


def _pages(queue: str, where: Where, piece: int) -> Source:
    after: str | None = None

    def next_page() -> Steps[tuple[list[str], bool]]:
        nonlocal after
        query = {"limit": piece} if after is None else {"limit": piece, "after": after}
        page: Messages = yield look(f"/v1/queues/{queue}/dead?{urlencode(query)}", _page)
        after = page.next
        found = map(to_message, page.messages)
        return [each.id for each in found if matches(where, each.reason, each.error, each.key, each.group, each.died_at)], after is None

    return next_page


def _redrive(queue: str, asked: dict[str, Any]) -> Exchange[int]:
    """Without ids it may not be asked twice: dead letters beyond a limit would go too. With ids it is the count that would suffer."""
    return Exchange(
        b"POST",
        f"/v1/queues/{queue}/dead/redrive",
        msgspec.json.encode(asked),
        lambda answer: _counted(answer).count,
        Kind.ONCE,
        is_slow=True,
    )
