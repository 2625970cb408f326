"""The waiting room: no wake-up is lost, nobody is woken in vain more often than the safety net says."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from rowq.engine import waiting
from rowq.engine.waiting import Waiter, WaitingRoom
from tests.support.crowd import Crowd
from tests.support.patience import DEADLINE, eventually


class Surroundings:
    """What the room asks of the engine: the time, when a topic falls due, and whether another process has written."""

    def __init__(self) -> None:
        self.time = 0
        self.due: dict[str, int] = {}
        self.arrived: list[str] = []
        self.asked = 0
        self.error: Exception | None = None

    def arrivals(self, topics: list[str]) -> list[str]:
        self.asked += 1
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        return [topic for topic in topics if topic in self.arrived]


class Sleeper:
    """One who waits, and counts how often it was woken."""

    def __init__(self, room: WaitingRoom, topic: str) -> None:
        self.woken = threading.Event()
        self.waiter: Waiter = room.enter(topic, self.woken.set)

    @property
    def is_awake(self) -> bool:
        return self.woken.is_set()


@pytest.fixture
def around() -> Surroundings:
    return Surroundings()


@pytest.fixture
def room(around: Surroundings) -> Iterator[WaitingRoom]:
    room = WaitingRoom(lambda: around.time, around.due.get, around.arrivals)
    yield room
    room.close()


@pytest.fixture
def enter(room: WaitingRoom) -> Callable[[str], Sleeper]:
    return lambda topic: Sleeper(room, topic)


Enter = Callable[[str], Sleeper]


@pytest.fixture
def no_safety_net(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "SAFETY", 3600.0)


def awake(sleepers: list[Sleeper]) -> list[bool]:
    return [sleeper.is_awake for sleeper in sleepers]


@pytest.mark.usefixtures("no_safety_net")
def test_as_many_are_woken_as_there_are_messages_first_come_first_served(room: WaitingRoom, enter: Enter) -> None:
    sleepers = [enter("q") for _ in range(4)]
    room.wake({"q": 2})
    assert awake(sleepers) == [True, True, False, False]
    room.wake({"q": 9})
    assert awake(sleepers) == [True] * 4
    assert room.count() == 0


@pytest.mark.usefixtures("no_safety_net")
def test_only_those_of_the_topic_are_woken(room: WaitingRoom, enter: Enter) -> None:
    here, there = enter("q"), enter("q.dlq")
    room.wake({"q": 5, "never": 1})
    assert (here.is_awake, there.is_awake) == (True, False)


@pytest.mark.usefixtures("no_safety_net")
def test_who_leaves_unwoken_takes_no_wake_up_along(room: WaitingRoom, enter: Enter) -> None:
    first, second = enter("q"), enter("q")
    room.leave(first.waiter, more=False)
    room.wake({"q": 1})
    assert (first.is_awake, second.is_awake) == (False, True)


@pytest.mark.usefixtures("no_safety_net")
def test_who_leaves_with_more_behind_wakes_the_next(room: WaitingRoom, enter: Enter) -> None:
    first, second, third = (enter("q") for _ in range(3))
    room.wake({"q": 1})
    room.leave(first.waiter, more=True)
    assert (second.is_awake, third.is_awake) == (True, False)


@pytest.mark.usefixtures("no_safety_net")
def test_one_is_woken_when_something_falls_due(room: WaitingRoom, enter: Enter, around: Surroundings) -> None:
    around.due["q"] = 1_000
    sleepers = [enter("q"), enter("q"), enter("other")]
    around.time = 1_000
    eventually(lambda: sleepers[0].is_awake)
    assert awake(sleepers) == [True, False, False]


@pytest.mark.usefixtures("no_safety_net")
def test_the_same_moment_is_announced_once(room: WaitingRoom, enter: Enter, around: Surroundings) -> None:
    around.due["q"] = 1_000
    around.time = 2_000
    sleepers = [enter("q"), enter("q")]
    eventually(lambda: sleepers[0].is_awake)
    around.due["q"] = 1_500
    eventually(lambda: sleepers[1].is_awake)


@pytest.mark.usefixtures("no_safety_net")
def test_one_of_each_topic_is_woken_when_another_process_has_written(room: WaitingRoom, enter: Enter, around: Surroundings) -> None:
    sleepers = [enter("q"), enter("q"), enter("p"), enter("r")]
    eventually(lambda: around.asked > 1)
    assert awake(sleepers) == [False] * 4
    around.arrived = ["q", "p"]
    eventually(lambda: sleepers[0].is_awake and sleepers[2].is_awake)
    around.arrived = []
    assert not sleepers[3].is_awake


def test_the_safety_net_wakes_one_at_a_time_however_many_wait(room: WaitingRoom, enter: Enter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "SAFETY", 0.2)
    started = time.monotonic()
    sleepers = [enter("q") for _ in range(50)]
    eventually(lambda: sum(awake(sleepers)) >= 3)
    assert time.monotonic() - started > 0.5, "more than one of them in a fifth of a second"
    assert awake(sleepers)[:3] == [True] * 3


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_failing_look_for_arrivals_does_not_end_the_safety_net(
    room: WaitingRoom, enter: Enter, around: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "SAFETY", 0.1)
    sleepers = [enter("q"), enter("q")]
    eventually(lambda: sleepers[0].is_awake)
    around.error = OSError("the disk is slow")
    eventually(lambda: around.error is None)
    sleepers.append(enter("q"))
    eventually(lambda: sum(awake(sleepers)) >= 2)


def test_nobody_is_left_behind_when_the_room_closes(room: WaitingRoom, enter: Enter) -> None:
    sleepers = [enter("q") for _ in range(20)]
    room.close()
    assert all(awake(sleepers))
    assert enter("q").is_awake, "who comes too late is not kept waiting"


def test_the_ticker_ends_with_the_last_who_waits(room: WaitingRoom, enter: Enter) -> None:
    sleeper = enter("q")
    eventually(_tickers)
    room.leave(sleeper.waiter, more=False)
    eventually(lambda: not _tickers())
    enter("q")
    assert eventually(_tickers)


@pytest.mark.usefixtures("no_safety_net")
def test_no_wake_up_is_lost_between_looking_and_waiting(room: WaitingRoom) -> None:
    """Consumers look, enter, look again and wait, as receive does; senders put and wake. Everything must be taken in the end."""
    total, stock, lock = 2_000, [0], threading.Lock()
    taken: list[int] = []

    def take() -> bool:
        with lock:
            if not stock[0]:
                return False
            stock[0] -= 1
            taken.append(1)
            return True

    def consume() -> None:
        while len(taken) < total:
            sleeper = Sleeper(room, "q")
            if take():
                room.leave(sleeper.waiter, more=True)
                continue
            has_waited = sleeper.woken.wait(DEADLINE)
            room.leave(sleeper.waiter, more=False)
            assert has_waited or len(taken) == total, "a wake-up was lost"

    def send() -> None:
        for _ in range(total // 4):
            with lock:
                stock[0] += 1
            room.wake({"q": 1})

    consumers = Crowd([consume for _ in range(8)])
    Crowd([send for _ in range(4)]).results()
    eventually(lambda: len(taken) == total)
    room.close()
    consumers.results()


def _tickers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "rowq-waiting"]


def test_who_waits_for_ever_new_topics_does_not_fill_the_memory(
    room: WaitingRoom, enter: Enter, around: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "MOST_KNOWN", 5)
    enter("always")
    for number in range(15):
        sleeper, asked = enter(f"topic-{number}"), around.asked
        eventually(lambda asked=asked: around.asked > asked + 1)  # type: ignore[misc]
        room.leave(sleeper.waiter, more=False)
    eventually(lambda: len(room._looked) <= 7)
