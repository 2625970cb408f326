"""A page of messages as requested: which ones, from where, how many; checked before anything is read."""

from __future__ import annotations

from typing import Any, Unpack

from rowq.errors import InvalidArgument
from rowq.model.message import BrowseOptions, State, Where
from rowq.model.queue import split_name
from rowq.model.text import check_text

MAX_PAGE = 1_000
TURNED_ROUND = (State.DEAD, State.FINISHED)
"""States that can be listed newest first: those in which messages stay, in the order of their arrival."""


_OF_DEAD = [name for name in Where.__struct_fields__ if name not in ("key", "group")]


class Page(Where, frozen=True, kw_only=True):
    """Of the fields of `Where`, messages of other states than dead have only a key and a group."""

    queue: str
    state: State
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
    check_where(page)
    _check_texts(page, "text", "after")
    _check_moments(page, "sent_after", "sent_before")
    for what in _OF_DEAD:
        if page.state is not State.DEAD and getattr(page, what) is not None:
            raise InvalidArgument(f"only dead letters can be selected by {what}, not {page.state} messages: leave out {what}")
    if not isinstance(page.newest, bool):
        raise InvalidArgument(f"newest must be True or False, not {page.newest!r}")
    if page.newest and page.state not in TURNED_ROUND:
        raise InvalidArgument(f"only dead and finished messages can be listed newest first, not {page.state} ones: leave out newest")
    return page


def check_where(where: Where) -> None:
    _check_texts(where, "reason", "error", "fingerprint", "key", "group")
    _check_moments(where, "died_before", "died_after")
    if where.error == "":
        raise InvalidArgument("error must not be empty: every error contains that")


def check_limit(limit: object) -> int:
    if type(limit) is not int or not 1 <= limit <= MAX_PAGE:
        raise InvalidArgument(f"limit must be between 1 and {MAX_PAGE}, not {limit!r}")
    return limit


def to_state(state: str) -> State:
    try:
        return State(state)
    except ValueError:
        raise InvalidArgument(f"{state!r} is not a state; states are: {', '.join(State)}") from None


def _check_texts(where: Where, *names: str) -> None:
    for name in names:
        if (value := getattr(where, name)) is not None:
            check_text(value, name)


def _check_moments(where: Where, *names: str) -> None:
    for name in names:
        moment = getattr(where, name)
        if moment is not None and (type(moment) is not int or not 0 <= moment < 1 << 62):
            raise InvalidArgument(f"{name} must be a time in whole milliseconds since 1970, UTC, not {moment!r}")
