"""The soak: a tiny one runs, and its verdict sees what it is there to see."""

from __future__ import annotations

import random
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pytest

import rowq
from tests.support.servers import Unavailable
from trust.soak import mixture
from trust.soak.news import Sum
from trust.soak.record import PARTS, Latencies, Latency, Plan, Reading, Record
from trust.soak.report import Report, page, report_of
from trust.soak.run import soak
from trust.soak.verdict import Bar, judge

HERE = Path(__file__).parents[2]
MILLION = 1_000_000
MB = 1_000_000
SECONDS = 500


@pytest.mark.prove("14 s; the tests of its parts beside it stand for it")
def test_a_tiny_soak_on_sqlite_accounts_for_everything_and_is_written_down(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "trust.soak", "--database", "sqlite", "--messages", "4000", "--kept", "0.5", "--batch", "50"]
    done = subprocess.run(
        [*command, "--json", "--record", str(tmp_path), "--folder", str(tmp_path)],
        cwd=HERE,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (report,) = msgspec.json.decode(done.stdout, type=list[Report])
    check_tiny(report.record, 4_000)
    assert report.record.dead.count > 0, "nothing was rejected or used up"
    assert msgspec.json.decode((tmp_path / "soak-sqlite.json").read_bytes(), type=Report).record.sent == report.record.sent
    assert "<svg" in (tmp_path / "soak-sqlite.html").read_text(encoding="utf-8")


@pytest.mark.prove("10 s; test_a_tiny_soak_on_sqlite_accounts_for_everything_and_is_written_down stands for it")
def test_a_soak_on_postgresql_that_is_cut_short_accounts_for_what_it_did(tmp_path: Path) -> None:
    told: list[int] = []
    plan = Plan(messages=10_000_000, minutes=0.05, seed=3, clients=2, threads=2, batch=50, ahead=1, kept=0.5)
    try:
        record = soak("postgresql", plan, tmp_path, told.append)
    except Unavailable as missing:
        pytest.skip(str(missing))
    check_tiny(record, record.plan.messages)
    assert told[-1] == record.plan.messages < plan.messages
    assert any(reading.backends for reading in record.readings)


def check_tiny(record: Record, messages: int) -> None:
    bars = judge(record)
    assert [bar.what for bar in bars if bar.is_missed] == []
    assert record.sent.count == messages
    assert all(bar.is_measured for bar in bars[:3]) and not any(bar.is_measured for bar in bars[3:]), "too short for growth"
    assert all(reading.file and reading.server for reading in record.readings)


class TestTheVerdict:
    def test_a_run_in_which_nothing_grows_meets_all_bars(self) -> None:
        assert missed(made_up()) == []

    def test_a_lost_message_is_missed(self) -> None:
        assert missed(made_up(acked=Sum(MILLION - 101, 99, 199))) == ["sent = acked + dead, message by message"]

    def test_one_lost_and_one_doubled_do_not_make_up_for_each_other(self) -> None:
        (bar,) = missed_bars(made_up(acked=Sum(MILLION - 100, 99, 199)))
        assert "not the same ones" in bar.found

    def test_messages_that_were_never_sent_are_missed(self) -> None:
        few = Sum(1_000, 5, 7)
        assert missed(made_up(sent=few, acked=few, dead=Sum())) == ["sent = acked + dead, message by message"]

    def test_a_run_in_which_nothing_was_sent_proves_nothing(self) -> None:
        assert "sent = acked + dead, message by message" in missed(made_up(messages=0, sent=Sum(), acked=Sum(), dead=Sum()))

    def test_an_error_that_a_client_heard_is_told(self) -> None:
        (bar,) = missed_bars(made_up(errors={"store_busy": 3}))
        assert (bar.what, bar.found) == ("errors", "3 store_busy")

    def test_rows_that_nobody_removes_are_told(self) -> None:
        (bar,) = missed_bars(made_up(left={"rowq_waiting_keys": 7}))
        assert bar.found == "7 in rowq_waiting_keys"

    @pytest.mark.parametrize("grows", ["server", "backends"])
    def test_memory_that_grows_all_the_time_is_missed(self, grows: str) -> None:
        names = missed(made_up(**{grows: lambda share: 80 * MB * (1 + 0.2 * share)}))
        assert names == [name for name in names if f"memory of the {grows}" in name] and len(names) == 2

    def test_memory_that_grows_in_the_first_half_only_is_warming_up(self) -> None:
        assert missed(made_up(server=lambda share: 80 * MB * (1 + min(share, 0.5)))) == []

    @pytest.mark.parametrize("gauge", ["server", "backends"])
    @pytest.mark.parametrize("since", [0.0, 0.85])
    def test_a_gauge_that_reads_nothing_is_missed(self, gauge: str, since: float) -> None:
        names = missed(made_up(**{gauge: lambda share: 0 if share > since else 80 * MB}))
        assert names and all(f"memory of the {gauge}" in name for name in names)

    def test_sqlite_has_no_backends_to_be_read(self) -> None:
        assert missed(made_up(database="sqlite", backends=0)) == []

    def test_a_peak_of_a_moment_is_no_growth(self) -> None:
        assert missed(made_up(server=lambda share: 80 * MB * (2 if 0.955 < share < 0.965 else 1))) == []

    def test_a_step_late_in_the_run_is_growth(self) -> None:
        assert missed(made_up(server=lambda share: 80 * MB * (1.1 if share > 0.85 else 1))) != []

    @pytest.mark.parametrize(("grows", "what"), [("file", "database"), ("log", "log")])
    def test_a_file_that_grows_is_missed(self, grows: str, what: str) -> None:
        assert missed(made_up(**{grows: lambda share: 400 * MB * (1 + share)})) == [f"{what}: the most of the last fifth, to the second"]

    def test_a_file_that_comes_and_goes_in_waves_is_bounded(self) -> None:
        assert missed(made_up(file=lambda share: 400 * MB * (1 + share * 100 % 1))) == []

    @pytest.mark.parametrize("verb", ["send", "receive", "ack"])
    def test_a_slower_end_is_missed(self, verb: str) -> None:
        fast, slow = Latency(4_000, 20_000, 60_000), Latency(4_000, 20_000, 100_000)
        latencies = [dict.fromkeys(("send", "receive", "ack"), fast) for _ in range(PARTS)]
        latencies[-1][verb] = slow
        assert missed(made_up(latencies=latencies)) == [f"p99 of {verb}: last part, to the first"]

    def test_a_verb_that_was_never_called_is_missed(self) -> None:
        assert len(missed(made_up(latencies=[{} for _ in range(PARTS)]))) == 6

    def test_a_short_run_tells_nothing_of_growth(self) -> None:
        record = made_up(messages=1_000, file=lambda share: 400 * MB * (1 + share))
        assert missed(record) == []
        assert "too short to tell" in page(report_of(record))


class TestTheMeasuring:
    def test_latencies_are_told_part_by_part(self) -> None:
        latencies = Latencies()
        for done in range(0, 1_000, 10):
            latencies.add(done, {"send": [done // 100 * 1_000] * 3})
        latencies.add(5_000, {"ack": [1, 2, 3]})
        parts = latencies.parts(1_000)
        assert [part["send"].p50 for part in parts] == [number * 1_000 for number in range(PARTS)]
        assert [set(part) for part in parts] == [{"send"}] * 9 + [{"send", "ack"}]

    def test_of_a_long_run_some_readings_are_written_down_and_all_are_judged(self) -> None:
        report = report_of(made_up(server=lambda share: 80 * MB * (1 + share)))
        assert report.missed and 100 < len(report.record.readings) <= 300 < len(made_up().readings)


class TestTheMixture:
    def test_most_messages_are_plain_and_all_queues_get_some(self) -> None:
        turns = list(islice(mixture.turns(random.Random(1), 250), 5_000))
        sizes = {queue: sum(turn.size for turn in turns if turn.queue == queue) for queue in mixture.QUEUES}
        assert all(sizes.values()) and sizes[mixture.PLAIN] > 0.8 * sum(sizes.values())

    def test_a_number_decides_what_becomes_of_its_message(self) -> None:
        fates = mixture.sort([delivered(number, 1) for number in range(100)])
        assert [len(each) for each in fates] == [79, 15, 5], "one is left until its lease runs out"
        again = mixture.sort([delivered(number, 2) for number in range(100)])
        assert [len(each) for each in again] == [89, 5, 5]
        assert all(mixture.is_last(each) for each in again.nack) and not any(map(mixture.is_last, fates.nack))


def delivered(number: int, attempt: int) -> rowq.Delivery:
    (draft,) = mixture.drafts(mixture.MIXED, [number])
    return rowq.Delivery("id", mixture.MIXED, draft.payload, {}, attempt, "receipt", 0, 0, None, None, 0)


def made_up(**changes: Any) -> Record:
    """A record of a run in which nothing grows; a size may be a function of how much is done."""
    messages: int = changes.pop("messages", MILLION)
    sizes: dict[str, Any] = {"server": 80 * MB, "backends": 50 * MB, "file": 400 * MB, "log": 9 * MB}
    sizes |= {name: changes.pop(name) for name in list(changes) if name in sizes}
    readings = [
        Reading(
            at=float(second),
            done=messages * second // SECONDS,
            depth=10_000,
            server_resident=90 * MB,
            free=0,
            elsewhere=0.1,
            **{name: round(size(second / SECONDS)) if callable(size) else size for name, size in sizes.items()},
        )
        for second in range(1, SECONDS + 1)
    ]
    told: dict[str, Any] = {
        "database": "postgresql",
        "latencies": [dict.fromkeys(("send", "receive", "ack"), Latency(4_000, 20_000, 60_000))] * PARTS,
        "sent": Sum(messages, 111, 222),
        "acked": Sum(messages - 100, 100, 200),
        "dead": Sum(100, 11, 22),
        "errors": {},
        "left": {},
    }
    return Record(
        plan=Plan(messages=messages, seed=1),
        began_at=0,
        seconds=float(SECONDS),
        machine={},
        readings=readings,
        stale=0,
        calls=100_000,
        **(told | changes),
    )


def missed(record: Record) -> list[str]:
    return [bar.what for bar in missed_bars(record)]


def missed_bars(record: Record) -> list[Bar]:
    return [bar for bar in judge(record) if bar.is_missed]
