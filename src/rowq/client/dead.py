"""Dead letters of a server, redriven or deleted: in one request, or in batches if the caller wants progress or a rate."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from rowq.client.exchange import Exchange, Kind, reader
from rowq.client.insights import look_page
from rowq.engine.arguments import dead_choice, dead_limit, dead_piece, insist_on_choice
from rowq.engine.bulk import Progress
from rowq.engine.operation import Operation, Sleep, in_pieces
from rowq.model.message import State, Where
from rowq.model.page import Page
from rowq.model.queue import split_name
from rowq.wire import Count, Messages

Source = Callable[[], Operation[tuple[list[str], bool]]]
"""Gives the ids of the next batch, and whether it is the last."""

_counted = reader(Count)


def redrive(
    queue: str, ids: Iterable[str] | None, where: Where | None, limit: int | None, rate: float | None, progress: Progress | None
) -> Operation[int]:
    return _treat("redrive", queue, *dead_choice(ids, where), limit, rate, progress)


def delete_dead(
    queue: str, ids: Iterable[str] | None, where: Where | None, limit: int | None, rate: float | None, progress: Progress | None
) -> Operation[int]:
    chosen, filters = dead_choice(ids, where)
    insist_on_choice(chosen, filters)
    return _treat("removal", queue, chosen, filters, limit, rate, progress)


def _treat(
    action: str, queue: str, ids: list[str] | None, where: Where, limit: int | None, rate: float | None, progress: Progress | None
) -> Operation[int]:
    name, _ = split_name(queue)
    most, piece = dead_limit(limit), dead_piece(rate)
    target = f"/v1/queues/{name}/dead/{action}"
    asked = {field: value for field, value in msgspec.structs.asdict(where).items() if value is not None}
    if ids is None and rate is None and progress is None:
        count: int = yield _ask(target, asked if limit is None else {**asked, "limit": limit})
        return count
    source = _pages(Page(queue=name, state=State.DEAD, limit=piece, **asked)) if ids is None else _parts(ids, piece)
    return (yield from _in_pieces(target, asked, source, most, rate, progress))


def _in_pieces(
    target: str, asked: dict[str, Any], source: Source, most: int, rate: float | None, progress: Progress | None
) -> Operation[int]:
    """By id, so that a message that dies again meanwhile is not taken twice; and only if it still matches."""
    started, count, is_last = time.monotonic(), 0, False
    with in_pieces(lambda: count, "dead letters"):
        while count < most and not is_last:
            ids, is_last = yield from source()
            if ids:
                count += yield _ask(target, {**asked, "ids": ids[: most - count]})
            if progress is not None:
                progress(count)
            if rate is not None and not is_last:
                yield Sleep(max(0.0, started + count / rate - time.monotonic()))
    return count


def _parts(ids: list[str], piece: int) -> Source:
    position = 0

    def next_part() -> Operation[tuple[list[str], bool]]:
        nonlocal position
        start, position = position, position + piece
        return ids[start:position], position >= len(ids)
        yield  # makes it a generator

    return next_part


def _pages(page: Page) -> Source:
    def next_page() -> Operation[tuple[list[str], bool]]:
        nonlocal page
        found: Messages = yield look_page(page.queue, page)
        page = msgspec.structs.replace(page, after=found.next)
        return [each.id for each in found.messages], found.next is None

    return next_page


def _ask(target: str, asked: dict[str, Any]) -> Exchange[int]:
    """Without ids the request is not repeated: it would take dead letters beyond the limit. With ids only the count would be wrong."""
    return Exchange(b"POST", target, msgspec.json.encode(asked), lambda answer: _counted(answer).count, Kind.ONCE, is_slow=True)
