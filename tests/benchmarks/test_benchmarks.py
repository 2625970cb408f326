"""Every benchmark runs from end to end and says what it promises; whether its bars are met is for `make bench`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

import rowq
from benchmarks import record
from benchmarks.__main__ import BENCHMARKS
from benchmarks.harness import Bar, Bench, Claim, Gauge, Timing, Turns, interleave
from benchmarks.machine import facts
from benchmarks.payload import SIZE, body
from benchmarks.postgresql.batches import WORN_CPU
from benchmarks.scratch import Scratch, scratch
from benchmarks.servers import SERVER_CPU
from benchmarks.serving import QUEUE, has_generator, load, rowq_server, write_body
from benchmarks.table import number, settlement, to_markdown, to_rich
from tests.benchmarks.tiny import TINY
from tests.support.patience import eventually
from tests.support.servers import Unavailable

BARS = {
    "concurrency": [Bar("at least", 10), Bar("at least", 3)],
    "batches": [Bar("at least", 60), Bar("at most", 140)],
    "consumers": [Bar("at least", 70)],
    "single": [Bar("at least", 80), *[Bar("at least", times) for times in (1, 2, 0.8, 1)]],
    "depth": [Bar("at most", 130)] * 3,
    "transfer": [Bar("at most", 200)] * 2,
    "http": [Bar("at least", 60), Bar("at least", 100), Bar("at least", 25)],
    "remote": [Bar("at least", 20), Bar("at most", 100)],
    "postgresql-callers": [Bar("at least", 10)],
    "postgresql-batches": [Bar("at least", 1.1), Bar("at least", 1.1), Bar("at least", 5), Bar("at least", 5), Bar("at least", 20)],
    "postgresql-consumers": [Bar("at least", 70)],
    "postgresql-processes": [Bar("at least", 1.3), Bar("at least", 85)],
    "postgresql-snapshot": [Bar("at most", 2), Bar("at most", 2), Bar("at least", 70)],
    "postgresql-endurance": [Bar("at least", 90), Bar("at most", 150)],
    "mariadb": [Bar("at least", 65.8)],
    "spark": [Bar("at least", 40), Bar("at least", 2.5), Bar("at least", 1.5), Bar("at least", 15)],
}
PARTLY = {"single", "postgresql-batches", "postgresql-processes"}
"""Whose peers may not be installed, or where one of two bars is to be met."""
ONCE = {"postgresql-endurance"}
"""However many the rounds."""
SPANS = {
    "http": "load for 3 s on each of ten servers, a minute; test_the_load_on_a_server_is_counted stands for it",
    "postgresql-processes": "spans of 3 s; test_two_processes_must_be_quicker_unless_they_have_no_core_left stands for it",
    "postgresql-snapshot": "two rounds of 16 s; test_the_tenths_are_of_the_time_and_know_empty_receives stands for it",
    "postgresql-endurance": "15 s; postgresql-consumers stands for it",
    "spark": "a JVM and streams, a minute; tests/benchmarks/test_spark.py stands for it",
}
"""Chapters that measure for a span of time, however small the size, or start Spark."""
TWICE = "the same in two rounds; the first round, and two rounds of batches, stand for it"
AKIN = "1 to 8 s; the chapters that run in `make test`, one for each database and one over HTTP, are made of the same parts"
OFTEN = {"concurrency", "single", "remote", "postgresql-callers", "mariadb"}
"""The chapters of one round in `make test`."""
COARSE = {SERVER_CPU, WORN_CPU}
"""The system counts a process's time in hundredths of a second, which is more than a turn takes here."""
RATE = Gauge("send", "/s")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with scratch(tmp_path) as place:
        yield Bench(TINY, 2, place)


def cases() -> Iterator[ParameterSet]:
    """Each chapter in one round; in several, which it must all measure, where that is quick."""
    for name in BENCHMARKS:
        if name in SPANS:
            yield pytest.param(name, 2, marks=[pytest.mark.prove(SPANS[name]), pytest.mark.timeout(300)])
        else:
            yield pytest.param(name, 1, marks=() if name in OFTEN else pytest.mark.prove(AKIN))
            yield pytest.param(name, 2, marks=() if name == "batches" else pytest.mark.prove(TWICE))


# All that start Spark are given to one worker: there is one JVM, and one session.
@pytest.mark.parametrize(("name", "rounds"), list(cases()))
def test_a_benchmark_measures_in_every_round_and_holds_it_against_its_bars(name: str, rounds: int, bench: Bench) -> None:
    bench = replace(bench, rounds=rounds)
    if name == "http":
        need_generator()
    chapter = BENCHMARKS[name](bench)
    assert chapter.name == name
    if not chapter.series:
        raise Unavailable(chapter.notes[0])
    rounds = 1 if name in ONCE else rounds
    assert all(len(series.values) == rounds for series in chapter.series)
    assert all(min(series.values) > 0 for series in chapter.series if series.gauge not in COARSE)
    assert all(len(claim.values) == rounds and min(claim.values) > 0 for claim in chapter.claims)
    bars = [claim.bar for claim in chapter.claims if claim.bar is not None]
    assert bars and set(bars) <= set(BARS[name]) if name in PARTLY else bars == BARS[name]
    assert not list(bench.scratch.folder.iterdir()), "a benchmark cleans up"


def test_the_load_on_a_server_is_counted(tmp_path: Path) -> None:
    need_generator()
    body = write_body(tmp_path / "body.json", 1)

    def counted(script: str) -> int:
        """wrk takes an answer that comes after two seconds for a failure: the next try counts."""
        with suppress(AssertionError):
            return load(port, script, body, connections=4, seconds=1).messages
        return 0

    with rowq_server(tmp_path / "queue.db") as port, rowq.connect(f"sqlite:///{tmp_path / 'queue.db'}") as broker:
        sent = eventually(lambda: counted("post"), within=60)
        depth = broker.stats(QUEUE).depth
        assert depth >= sent
        done = eventually(lambda: counted("cycle"), within=60)
        assert broker.stats(QUEUE).depth <= depth - done + 4, "more than what each connection was in the middle of"


def need_generator() -> None:
    if not has_generator():
        assert not os.environ.get("CI"), "wrk is not installed"
        pytest.skip("wrk is not installed: the server is not loaded")


def test_turns_of_a_round_are_added_up_and_the_first_is_not_always_the_same(tmp_path: Path) -> None:
    taken: list[str] = []

    def contestant(name: str, seconds: float, turns: int) -> Turns:
        for _ in range(turns):
            taken.append(name)
            yield {RATE: Timing(seconds, 10)}

    bench = Bench(TINY, 1, Scratch(tmp_path))
    scores = interleave(bench, {"quick": lambda room: contestant("quick", 1, 2), "slow": lambda room: contestant("slow", 4, 3)})
    assert taken == ["quick", "slow", "slow", "quick", "slow"]
    assert scores.of("quick", RATE) == (10.0,) and scores.of("slow", RATE) == (2.5,)
    assert scores.percent(RATE, "quick", "slow") == (400.0,)


@pytest.mark.parametrize(
    ("bar", "holds"), [(Bar("at least", 2), True), (Bar("at least", 4), False), (Bar("at most", 2), False), (None, None)]
)
def test_a_bar_is_held_against_the_median(bar: Bar | None, holds: bool | None) -> None:
    assert Claim("it", "x", (1, 3, 9), bar).holds is holds


def test_a_bar_that_is_meant_for_more_is_neither_met_nor_missed() -> None:
    claim = Claim("five minutes", "%", (50,), Bar("at least", 90), is_measured=False)
    assert claim.holds is None and settlement(claim) == "not measured"


def test_what_is_written_tells_figures_and_bars_and_no_path(bench: Bench, tmp_path: Path) -> None:
    chapter = BENCHMARKS["batches"](bench)
    data, page = record.write([chapter], facts(bench.scratch.folder), "python -m benchmarks", bench.rounds, tmp_path / "results")
    found = json.loads(data.read_bytes())
    assert [each["name"] for each in found["chapters"]] == ["batches"]
    assert {"cores", "memory", "Python", "SQLite", "file system"} <= set(found["machine"])
    assert to_markdown(chapter) in page.read_text(encoding="utf-8")
    assert str(tmp_path) not in data.read_text(encoding="utf-8") + page.read_text(encoding="utf-8")
    assert [table.row_count for table in to_rich(chapter)] == [7, len(chapter.claims)]


def test_a_payload_is_as_large_as_the_tables_say() -> None:
    assert {len(body(0)), len(body(123_456_789))} == {SIZE}
    assert number(12_345.6, "/s") == "12,346 /s" and number(12.34, "x") == "12.3x"
