"""The peers on PostgreSQL are what their names say, a held snapshot holds, and the figures are reckoned as they are told."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from benchmarks.harness import Bar, Gauge, Scores
from benchmarks.postgresql import peers, processes, snapshot, status_column
from benchmarks.postgresql.snapshot import Receive, Spent
from benchmarks.postgresql.status_column import StatusColumn
from benchmarks.servers import SERVER_CPU, Host, held_snapshot
from tests.benchmarks.tiny import TINY
from tests.support.asking import ask
from tests.support.servers import shared_postgresql

RATE = Gauge("receive and ack", "/s")


@pytest.fixture
def host() -> Host:
    return Host(shared_postgresql())


@pytest.mark.parametrize(
    ("finish", "kept", "logged"), [(status_column.KEEP, 2, 0), (status_column.DELETE, 0, 0), (status_column.DELETE_AND_LOG, 0, 2)]
)
def test_a_status_column_gives_each_job_once_in_order_and_finishes_it_its_way(finish: str, kept: int, logged: int, host: Host) -> None:
    with host.database() as url:
        status_column.install(url)
        with StatusColumn(url, finish) as one, StatusColumn(url, finish) as other:
            one.send([b"a", b"b", b"c"])
            first = one.claim(2)
            assert sorted(body for _, body in first) == [b"a", b"b"]
            assert [body for _, body in other.claim(2)] == [b"c"]
            assert other.claim(1) == []
            assert one.finish(first) == 2 and one.finish(first) == 0
        assert ask(url, "SELECT count(*) FROM jobs WHERE status <> 'picked'") == [(kept,)]
        assert ask(url, "SELECT count(*) FROM jobs_log") == [(logged,)]


@pytest.mark.parametrize("name", peers.ALL)
def test_a_peer_works_off_all_that_it_is_given_turn_by_turn(name: str, host: Host, tmp_path: Path) -> None:
    peer = peers.present().get(name)
    if peer is None:
        pytest.skip(f"{name} is not installed")
    turns = list(peer(host, TINY, RATE, tmp_path))
    assert len(turns) == TINY.consumer_turns
    assert all(turn[RATE].messages > 0 and turn[RATE].seconds > 0 for turn in turns)


def test_what_dies_under_a_held_snapshot_cannot_be_cleaned_away(host: Host) -> None:
    with host.database() as url, psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE dying AS SELECT generate_series(1, 1000) AS number")

        def size_when_dead() -> int:
            connection.execute("DELETE FROM dying")
            connection.execute("VACUUM dying")
            ((size,),) = connection.execute("SELECT pg_relation_size('dying')").fetchall()
            return int(size)

        with held_snapshot(url):
            assert size_when_dead() > 0
        assert size_when_dead() == 0


def test_the_tenths_are_of_the_time_and_know_empty_receives() -> None:
    quick = [Receive(second / 10, 0.001, 100 * (second % 2)) for second in range(90)]
    slow = [Receive(9 + second / 10, 0.004, 100 * (second % 2)) for second in range(10)]
    spent = [Spent(second / 2, min(second, 16) / 4 + max(0, second - 16) / 2) for second in range(20)]
    tenths = snapshot._tenths([*quick, *slow], spent)
    first, last = tenths["first tenth"], tenths["last tenth"]
    assert first[snapshot.MEAN] == pytest.approx(1_000) and last[snapshot.MEAN] == pytest.approx(4_000)
    assert last[snapshot.EMPTY_MEAN] == pytest.approx(4_000) and last[snapshot.SLOW] == pytest.approx(4_000)
    assert first[snapshot.RATE] == pytest.approx(500, rel=0.02)
    assert first[SERVER_CPU] == pytest.approx(1_000, rel=0.02) and last[SERVER_CPU] == pytest.approx(2_000, rel=0.02)


@pytest.mark.parametrize(
    ("ratio", "busy", "rest", "bar", "holds"),
    [
        (1.4, 50.0, 3.0, Bar("at least", 1.3), True),
        (1.2, 95.0, 3.0, Bar("at least", 85), True),
        (1.2, 50.0, 3.0, Bar("at least", 1.3), False),
        (1.2, 95.0, 70.0, Bar("at least", 1.3), False),
    ],
)
def test_two_processes_must_be_quicker_unless_they_have_no_core_left(ratio: float, busy: float, rest: float, bar: Bar, holds: bool) -> None:
    scores = Scores()
    scores.add("one process", {processes.CYCLE: 1_000, processes.BUSY: 40})
    scores.add("two processes", {processes.CYCLE: 1_000 * ratio, processes.BUSY: busy})
    assert [(claim.bar, claim.holds) for claim in processes._claims(scores, rest) if claim.bar] == [(bar, holds)]
