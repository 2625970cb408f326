"""Connections of a process: the last one is lent first, a broken one never, and a server that is away is tried again for a while."""

from __future__ import annotations

import itertools

import pytest

from rowq import StoreUnavailable
from rowq.store.server import connections as module
from rowq.store.server.connections import Connections, Refused


class Fake:
    def __init__(self, number: int) -> None:
        self.number = number
        self.is_usable = True
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


class Pool(Connections[Fake]):
    def __init__(self, timeout: float = 5.0) -> None:
        super().__init__("the database", timeout)
        self.opened: list[Fake] = []
        self.refusals: list[Refused] = []

    def _open(self) -> Fake:
        if self.refusals:
            raise self.refusals.pop(0)
        self.opened.append(Fake(len(self.opened)))
        return self.opened[-1]


def away(*, may_pass: bool = True) -> Refused:
    return Refused(StoreUnavailable("away"), may_pass=may_pass)


def test_the_last_one_that_came_back_is_lent_first() -> None:
    pool = Pool()
    one, two = pool.take(), pool.take()
    pool.give_back(one)
    pool.give_back(two)
    assert pool.take() is two
    assert pool.take() is one
    assert len(pool.opened) == 2


def test_one_that_broke_while_it_was_idle_is_replaced() -> None:
    pool = Pool()
    broken = pool.take()
    pool.give_back(broken)
    broken.is_usable = False
    assert pool.take() is not broken
    assert broken.is_closed


def test_after_an_error_it_is_not_lent_again() -> None:
    pool = Pool()
    with pytest.raises(ZeroDivisionError), pool.taken() as one:
        raise ZeroDivisionError
    assert one.is_closed
    with pool.taken() as other:
        pass
    assert other is not one
    assert pool.take() is other


def test_no_more_than_a_few_are_kept() -> None:
    pool = Pool()
    taken = [pool.take() for _ in range(20)]
    for one in taken:
        pool.give_back(one)
    assert 0 < sum(not one.is_closed for one in taken) < 20


def test_a_server_that_restarts_is_tried_again() -> None:
    pool = Pool()
    pool.refusals = [away(), away(), away()]
    assert pool.take() is pool.opened[0]


def test_what_stays_wrong_is_not_tried_again() -> None:
    pool = Pool()
    pool.refusals = [away(may_pass=False), away()]
    with pytest.raises(StoreUnavailable, match="away"):
        pool.take()
    assert len(pool.refusals) == 1


def test_the_first_one_is_not_tried_again() -> None:
    pool = Pool()
    pool.refusals = [away(), away()]
    with pytest.raises(StoreUnavailable, match="away"):
        pool.open_at_once()
    assert len(pool.refusals) == 1


def test_it_is_given_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock on which a tenth of a second passes with every look: two pauses fit into the timeout, a third would not."""
    moments = itertools.count(step=0.1)
    monkeypatch.setattr(module, "running", lambda: next(moments))
    pool = Pool(timeout=0.35)
    pool.refusals = [away() for _ in range(1_000)]
    with pytest.raises(StoreUnavailable, match="away"):
        pool.take()
    assert 1_000 - len(pool.refusals) == 3


def test_one_that_breaks_takes_the_idle_ones_with_it() -> None:
    pool = Pool()
    idle = pool.take()
    pool.give_back(idle)
    pool.forget_idle()
    assert idle.is_closed
    assert pool.take() is not idle


def test_closed_ones_are_lent_no_more() -> None:
    pool = Pool()
    idle, busy = pool.take(), pool.take()
    pool.give_back(idle)
    pool.close()
    assert idle.is_closed
    pool.give_back(busy)
    assert busy.is_closed
    with pytest.raises(StoreUnavailable, match="closed"):
        pool.take()


def test_a_child_of_a_fork_closes_nothing_and_lends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_inherited", [])
    pool = Pool()
    idle = pool.take()
    pool.give_back(idle)
    pool.leave_to_parent()
    assert not idle.is_closed
    with pytest.raises(StoreUnavailable):
        pool.take()
