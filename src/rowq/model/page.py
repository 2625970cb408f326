"""A page of messages as requested: which ones, from where, how many; checked before anything is read."""

from __future__ import annotations

from typing import Any, Unpack

import msgspec

from rowq.errors import InvalidArgument
from rowq.model.message import BrowseOptions, State
from rowq.model.queue import split_name
from rowq.model.text import check_text

MAX_PAGE = 1_000
TURNED_ROUND = (State.DEAD, State.FINISHED)
"""States that can be listed newest first: those in which messages stay, in the order of their arrival."""


class Page(msgspec.Struct, frozen=True, kw_only=True):
    queue: str
    state: State
    key: str | None = None
    group: str | None = None
    text: str | None = None
    sent_after: int | None = None
    sent_before: int | None = None
    after: str | None = None
    limit: int = 100
    newest: bool = False


def to_page(queue: str, **options: Unpack[BrowseOptions]) -> Page:
    name, is_dead = split_name(queue)
    given: dict[str, Any] = dict(options)
    state = to_state(given.pop("state", State.READY))
    page = Page(queue=name, state=State.DEAD if is_dead else state, **given)
    check_limit(page.limit)
    for what in ("key", "group", "text", "after"):
        if (value := getattr(page, what)) is not None:
            check_text(value, what)
    for what in ("sent_after", "sent_before"):
        _check_moment(getattr(page, what), what)
    if not isinstance(page.newest, bool):
        raise InvalidArgument(f"newest must be True or False, not {page.newest!r}")
    if page.newest and page.state not in TURNED_ROUND:
        raise InvalidArgument(f"only dead and finished messages can be listed newest first, not {page.state} ones: leave out newest")
    return page


def check_limit(limit: object) -> int:
    if type(limit) is not int or not 1 <= limit <= MAX_PAGE:
        raise InvalidArgument(f"limit must be between 1 and {MAX_PAGE}, not {limit!r}")
    return limit


def to_state(state: str) -> State:
    try:
        return State(state)
    except ValueError:
        raise InvalidArgument(f"{state!r} is not a state; states are: {', '.join(State)}") from None


def _check_moment(moment: object, what: str) -> None:
    if moment is not None and (type(moment) is not int or not 0 <= moment < 1 << 62):
        raise InvalidArgument(f"{what} must be a time in whole milliseconds since 1970, UTC, not {moment!r}")
