"""Cut off at any point and run again, a copy goes on: nothing is there twice, and nothing is missing."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import rowq
from rowq import Draft
from rowq.engine.engine import Engine
from rowq.store.transfer import exporter
from tests.support.life import bury, drain
from tests.transfer.conftest import SOME_PAIRS, Open
from tests.transfer.journey import Journey, copy, everything

ROOT = Path(__file__).parents[2]


class Cut(BaseException):
    """The power goes."""


def fill(broker: rowq.Broker, count: int) -> None:
    """Messages of all kinds in two queues, with a history and an audit."""
    broker.configure("q", keep="outcome", retention=0)
    bury(broker, "dead", keys_if_undelivered=["k"])
    broker.send_many("q", range(count // 4))
    drain(broker)
    broker.send_many("q", [_draft(n) for n in range(count)])
    broker.receive("q", max=count // 10, lease=3600)
    broker.send_many("small", range(7))


def _draft(number: int) -> Draft:
    return Draft(
        number,
        priority=number % 3,
        group=f"g{number % 9}" if number % 4 == 0 else None,
        key=f"k{number}" if number % 5 == 0 else None,
        delay=600 if number % 6 == 0 else 0,
        ttl=3600 if number % 7 == 0 else None,
        id=f"own-{number}" if number % 8 == 0 else None,
    )


def as_copied(broker: rowq.Broker) -> dict[str, Any]:
    """What a source looks like once it has arrived: leases are given back."""
    found = everything(broker)
    for message in found.values():
        if message["state"] == "leased":
            message |= {"state": "ready", "attempts": message["attempts"] - 1, "lease_until": None, "leased_at": None, "consumer": None}
    return found


def assert_arrived_once(source: rowq.Broker, target: rowq.Broker) -> None:
    before, after = as_copied(source), everything(target)
    assert after == before
    for id in before:
        assert target.audit(id) == source.audit(id)
    assert target.keys() == source.keys()
    assert [stats.paused for stats in target.queues()] == [False, False]
    assert [stats.paused for stats in source.queues()] == [True, True]


BEFORE = pytest.param(False, id="before", marks=pytest.mark.prove("6 s; that a run ends just after a commit stands for it"))


@pytest.mark.parametrize("is_written", [BEFORE, pytest.param(True, id="after")])
def test_cut_off_at_any_transaction_it_goes_on(
    short_journey: Journey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    """Every transaction of the way is once the last one of a run, just before or just after it is committed."""
    monkeypatch.setattr(exporter, "PIECE", 15)
    fill(short_journey.source, 40)
    act, left = Engine.act, [0]

    def act_or_be_cut(engine: Any, function: Callable[..., Any], **options: Any) -> Any:
        left[0] -= 1
        if left[0] < 0 and not is_written:
            raise Cut
        result = act(engine, function, **options)
        if left[0] < 0:
            raise Cut
        return result

    monkeypatch.setattr(Engine, "act", act_or_be_cut)
    cuts, is_cut = 0, True
    while is_cut:
        for queue in ("q", "small"):
            short_journey.source.resume(queue)
        target, left[0], is_cut = f"sqlite:///{tmp_path / f'{cuts}.db'}", cuts, False
        try:
            copy(short_journey.source_url, target)
        except Cut:
            is_cut, cuts, left[0] = True, cuts + 1, 1_000_000
            copy(short_journey.source_url, target)
        with rowq.connect(target, maintenance=False) as broker:
            assert_arrived_once(short_journey.source, broker)
    assert cuts > 20


@pytest.mark.parametrize("pair", SOME_PAIRS)
@pytest.mark.parametrize(
    ("kills", "messages"), [(1, 100), pytest.param(4, 400, marks=pytest.mark.prove("12 processes, 30 s; one kill stands for it"))]
)
def test_killed_at_random_it_goes_on(open_journey: Open, pair: str, kills: int, messages: int) -> None:
    journey, choose = open_journey(pair), random.Random(pair)
    fill(journey.source, messages)
    for _ in range(kills):
        kill_at_random(journey, choose)
    reports = journey.copy()
    assert all(report.agrees for report in reports)
    assert_arrived_once(journey.source, journey.target)


def kill_at_random(journey: Journey, choose: random.Random) -> None:
    """kill -9, a little after so many transactions."""
    command = [sys.executable, "-m", "tests.transfer.moving", journey.source_url, journey.target_url, "20"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        steps = choose.randint(1, 60)
        for line in process.stdout:
            steps -= msgspec.json.decode(line)[0] == "step"
            if steps < 0:
                break
        process.kill()
        assert process.stderr.read() == b""
        process.wait(60)


def test_a_run_may_go_on_with_other_queues(some_journey: Journey, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each queue has come as far as it has, whichever others were copied with it."""
    monkeypatch.setattr(exporter, "PIECE", 4)
    for n in range(30):
        some_journey.source.send("abc"[n % 3], n)

    def cut(done: int) -> None:
        if done > 10:
            raise Cut

    with some_journey.begun() as copier:
        audit, messages, *_ = copier.stages()
        audit.run(lambda done: None)
        with pytest.raises(Cut):
            messages.run(cut)
    assert 10 < len(everything(some_journey.target)) < 30
    assert [report.queue for report in some_journey.copy(["b"])] == ["b"]
    assert [stats.paused for stats in some_journey.target.queues()] == [True, False, True]
    some_journey.copy(["c", "a"])
    assert everything(some_journey.target) == everything(some_journey.source)
    for id in everything(some_journey.source):
        assert some_journey.target.audit(id) == some_journey.source.audit(id)
    assert not any(stats.paused for stats in some_journey.target.queues())


def test_a_second_run_changes_nothing(journey: Journey) -> None:
    fill(journey.source, 60)
    journey.copy()
    before = everything(journey.target), [journey.target.actions(queue) for queue in ("q", "small")], journey.target.keys()
    assert [report.copied for report in journey.copy()] == [0, 0]
    assert (everything(journey.target), [journey.target.actions(queue) for queue in ("q", "small")], journey.target.keys()) == before


def test_what_was_done_at_the_target_since_is_not_undone(journey: Journey) -> None:
    """Also without an audit, where nothing tells that a message had been there."""
    journey.source.configure("q", audit=False, lease=10)
    journey.source.send_many("q", range(5))
    journey.copy()
    assert drain(journey.target) == [0, 1, 2, 3, 4]
    journey.target.configure("q", lease=20, paused=True)
    journey.copy()
    assert journey.target.stats("q").ready == 0
    assert (journey.target.settings("q").lease_ms, journey.target.settings("q").paused) == (20_000, True)


def test_what_came_to_the_source_later_comes_with_the_next_run(journey: Journey) -> None:
    journey.source.send_many("q", [Draft(n, group="g") for n in range(3)])
    with journey.begun() as copier:
        later = [journey.source.send("q", n, group="g") for n in range(3, 6)]
        (report,) = journey.go_on(copier)
    assert (report.copied, report.later, report.agrees) == (3, 3, True)
    journey.target.ack_many(journey.target.receive("q"))
    journey.target.send("q", 6, group="g")
    (report,) = journey.copy()
    assert (report.copied, report.later) == (3, 0)
    assert [journey.target.audit(id)[0].event for id in later] == ["enqueued"] * 3
    assert drain(journey.target) == [1, 2, 3, 4, 5, 6]


def test_a_queue_that_was_deleted_at_the_target_is_copied_anew(journey: Journey) -> None:
    ids = [journey.source.send("q", n) for n in range(3)]
    journey.copy()
    journey.target.delete_queue("q")
    journey.copy()
    assert list(everything(journey.target)) == ids
    assert [event.event for event in journey.target.audit(ids[0])] == ["enqueued"]


def test_a_source_that_has_drawn_more_numbers_than_there_was_room_for(short_journey: Journey, monkeypatch: pytest.MonkeyPatch) -> None:
    """Since it was the target of another copy itself."""
    monkeypatch.setattr("rowq.store.transfer.progress._ROOM", 5)
    short_journey.source.send("q", 0)
    short_journey.copy()
    for n in range(1, 10):
        short_journey.source.send("q", n)
    short_journey.target.send("other", "in between")
    short_journey.copy()
    assert drain(short_journey.target) == list(range(10))


def test_a_copy_under_way_leaves_what_it_has_no_room_for_to_the_next(short_journey: Journey, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowq.store.transfer.progress._ROOM", 5)
    short_journey.source.send("q", 0)
    with short_journey.begun():
        short_journey.source.send_many("q", range(1, 10))
    (report,) = short_journey.copy()
    assert (report.copied, report.later) == (6, 4)
    short_journey.copy()
    assert drain(short_journey.target) == list(range(10))


def test_what_was_replaced_since_it_was_copied_is_not_removed(some_journey: Journey) -> None:
    """Its sender had an answer, and the target knows nothing of it yet."""
    ids = [some_journey.source.send("q", "old", key=f"k{n}") for n in range(3)]
    with some_journey.begun() as copier:
        some_journey.go_on(copier)
        some_journey.source.send("q", "new", key="k1")
        (report,) = copier.remove(lambda done: None)
    assert report.removed == 2
    assert list(everything(some_journey.source)) == [ids[1]]
    (report,) = some_journey.copy(remove=True)
    assert report.removed == 1
    assert [some_journey.target.get(id).payload for id in ids] == ["old", "new", "old"]
    assert everything(some_journey.source) == {}


def test_what_was_copied_is_removed_and_nothing_else(journey: Journey) -> None:
    fill(journey.source, 60)
    journey.copy(["q"])
    later = journey.source.send("q", "later")
    drain(journey.target)
    with journey.begun() as copier:
        journey.go_on(copier)
        latest = journey.source.send("q", "latest")
        reports = copier.remove(lambda done: None)
    assert list(everything(journey.source)) == [latest]
    assert [report.removed for report in reports] == [60 + 15 + 1 + 1, 7]
    assert journey.target.get(later).payload == "later"
    assert [stats.ready for stats in journey.target.queues()] == [1, 7]
    assert journey.source.actions("q", limit=1)[0].event == "purged"
