"""The harness itself: what goes wrong in a run is told, whoever is to blame for it."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.patience import eventually
from trust.torture import runner
from trust.torture.checker import Verdict
from trust.torture.director import JOURNAL, Director
from trust.torture.faults import Fault
from trust.torture.runner import Goals, missed, run
from trust.torture.scene import Scene, new_folder, opened

_LOSE = (
    "CREATE TEMP TABLE lost AS SELECT seq FROM rowq_ready WHERE queue = 'plain' AND position = seq LIMIT 5",
    "DELETE FROM rowq_messages WHERE seq IN (SELECT seq FROM lost)",
    "DELETE FROM rowq_ready WHERE seq IN (SELECT seq FROM lost)",
)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with opened("sqlite", tmp_path_factory.mktemp("scene"), 1, (("producer", "library"),)) as scene:
        yield scene


def test_a_fault_that_cannot_be_done_is_told(scene: Scene) -> None:
    def strike(_: Scene, __: random.Random) -> None:
        raise RuntimeError("the saw is blunt")

    director = Director(scene, [Fault("sawn off", strike, ("clock",))], 1)
    director.keep_up(1)
    director.finish()
    assert "'sawn off' failed" in director.failures[0]
    assert (director.struck.total(), director.done) == (0, 1), "what did not strike is no fault that was tried"
    assert "the saw is blunt" in director.failures[0]
    assert "sawn off begins" in (scene.folder / JOURNAL).read_text(encoding="utf-8")


def test_who_ends_by_itself_is_told_and_replaced(scene: Scene) -> None:
    director = Director(scene, [], 1)
    assert director.look_for_ended() == []
    (member,) = scene.cast.members
    name = member.actor.name
    os.kill(member.actor.pid, signal.SIGKILL)
    assert f"{name} ended by itself" in eventually(director.look_for_ended, 60)[0]
    assert not member.actor.has_ended
    assert member.actor.name != name
    director.finish()


@pytest.mark.prove("a whole run, 15 s; test_a_message_that_vanishes_is_missed stands for it")
@pytest.mark.timeout(300)
def test_messages_that_are_lost_are_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody takes them out of the tables, so well that nothing there is wrong: only those who sent them know of them."""

    def lose(scene: Scene, _: random.Random) -> None:
        with closing(sqlite3.connect(scene.file.path, timeout=60, isolation_level=None)) as connection:

            def lost() -> int:
                connection.execute("BEGIN IMMEDIATE")
                for statement in _LOSE:
                    connection.execute(statement)
                (count,) = connection.execute("SELECT COUNT(*) FROM lost").fetchone()
                connection.execute("DROP TABLE lost")
                connection.execute("COMMIT")
                return int(count)

            eventually(lost, 60)

    monkeypatch.setattr(runner, "plan", lambda *_, **__: [Fault("messages lost", lose, ("database",))])
    report = run("sqlite", 1, Goals(operations=300, faults=1, seconds=60), new_folder(tmp_path, "sqlite", 1), lambda done: None)
    assert not report.is_good
    assert any(violation.startswith("it is where its story ends") for violation in report.violations), report.violations
    assert any("VIOLATION" in line for line in report.lines())


def test_a_goal_that_was_not_reached_is_told() -> None:
    verdict = Verdict(operations=Counter({("http", "send"): 1_500, ("library", "ack"): 400}))
    assert missed(Goals(2_000, 3, 60), verdict, Counter({"disk full": 3})) == ["1,900 of 2,000 operations"]
    assert missed(Goals(1_900, 4, 60), verdict, Counter({"disk full": 3})) == ["3 of 4 faults"]
    assert missed(Goals(1_900, 3, 60), verdict, Counter({"disk full": 3})) == []
