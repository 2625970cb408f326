"""Runs of the audit: however lines are kept, every reader gets the same ones, each once and in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import rowq
from rowq import Broker, ManualClock
from rowq.ids import origin_of
from rowq.spark.tables import Piece, open_tabular
from rowq.store.dialect import Row
from rowq.store.row import BLOCK, grouped, in_blocks, lead, leads
from rowq.store.stream.segment import Commit, Plan, Purge, Segment, count_lines
from tests.support.database import KINDS, new_database

MESSAGES = 3 * BLOCK + 10


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return new_database(request.param, tmp_path).url


@pytest.fixture
def broker(url: str, clock: ManualClock) -> Iterator[Broker]:
    with rowq.connect(url, clock=clock, maintenance=False) as broker:
        yield broker


def live(broker: Broker) -> list[str]:
    """Messages that were sent, delivered and settled together and one by one; gives their ids."""
    ids = broker.send_many("q", range(MESSAGES))
    first = broker.receive("q", max=BLOCK + 30)
    broker.nack_many(first[::3], delay=0)
    broker.ack_many([delivery for place, delivery in enumerate(first) if place % 3])
    ids.append(broker.send("q", "alone"))
    broker.ack(*broker.receive("q"))
    while rest := broker.receive("q", max=50, consumer="c"):
        broker.ack_many(rest)
    return ids


def seq_of(id: str) -> int:
    origin = origin_of(id)
    assert origin is not None
    return origin.seq


def lines_of(url: str, *pieces: tuple[int, int]) -> list[dict[str, Any]]:
    with open_tabular(url) as tabular:
        bounds = tabular.bounds("audit", queues=None)
        assert bounds is not None
        found = [tabular.read(Piece("audit", *piece), queues=None) for piece in pieces or [bounds]]
        return [line for batches in found for batch in batches for line in batch.to_pylist()]


def rows(broker: Broker, query: str, **values: Any) -> list[Row]:
    with broker._engine.dialect.reading() as session:
        return session.rows(query, **values)


def test_each_message_has_its_own_lines(broker: Broker, url: str) -> None:
    ids = live(broker)
    told = {id: [(event.event, event.attempt, event.actor) for event in broker.audit(id)] for id in ids}
    assert all(events[0][0] == "enqueued" and events[-1][0] == "acked" for events in told.values())
    assert Counter(len(events) for events in told.values()) == {3: len(ids) - 32, 5: 32}
    assert {event[2] for event in told[ids[-2]] if event[0] != "enqueued"} == {"c"}
    lines = [line for line in lines_of(url) if line["seq"] is not None]
    assert sum(len(events) for events in told.values()) == len(lines)
    for id in (ids[0], ids[1], ids[BLOCK], ids[-1]):
        assert [line["event"] for line in lines if line["seq"] == seq_of(id)] == [event[0] for event in told[id]]


def test_every_line_has_a_number_of_its_own_that_grows(broker: Broker, url: str) -> None:
    live(broker)
    lines = lines_of(url)
    numbers = [line["line"] for line in lines]
    assert numbers == sorted(set(numbers))
    assert [line["at"] for line in lines] == sorted(line["at"] for line in lines)
    assert rows(broker, "last_line_audit")[0][0] == numbers[-1]


@pytest.mark.parametrize("width", [1, 7, BLOCK])
def test_pieces_may_cut_a_run(broker: Broker, url: str, width: int) -> None:
    live(broker)
    whole = lines_of(url)
    first, last = whole[0]["line"], whole[-1]["line"]
    assert lines_of(url, *((number, min(number + width - 1, last)) for number in range(first, last + 1, width))) == whole


@pytest.mark.parametrize("limit", [7, 100])
def test_a_copy_may_stop_within_a_run_and_go_on(broker: Broker, url: str, limit: int) -> None:
    live(broker)
    found: list[Row] = []
    while piece := rows(broker, "list_events", after=found[-1][0] if found else 0, last=1 << 40, queues=["q"], limit=limit):
        found += piece
    assert [(row[0], row[3], row[4]) for row in found] == [(line["line"], line["seq"], line["event"]) for line in lines_of(url)]
    enqueued: list[Row] = []
    while piece := rows(broker, "list_enqueued", after=enqueued[-1][0] if enqueued else 0, last=1 << 40, queues=["q"], limit=limit):
        enqueued += piece
    assert [row[0] for row in enqueued] == [row[0] for row in found if row[4] == "enqueued"]


def test_what_happened_is_counted_line_by_line(broker: Broker, url: str) -> None:
    live(broker)
    lines = lines_of(url)
    middle, end = lines[100]["line"], lines[-1]["line"]
    for after, upto in ((0, end), (0, middle), (middle, end)):
        counts: Counter[str] = Counter()
        for _, event, _, _, times in rows(broker, "tally_audit", after=after, upto=upto, slot_ms=10_000):
            counts[event] += times
        assert counts == Counter(line["event"] for line in lines if after < line["line"] <= upto)


def test_ids_that_only_the_audit_knows_are_found(broker: Broker, url: str) -> None:
    seqs = [seq_of(id) for id in live(broker)]
    at = {line["seq"]: line["at"] for line in lines_of(url) if line["event"] == "acked"}
    assert {row[0] for row in rows(broker, "find_told_origins", seqs=seqs, leads=leads(seqs))} == set(seqs)
    moments = sorted({int(moment.timestamp() * 1000) for moment in at.values()})
    assert {row[0] for row in rows(broker, "find_acked", seqs=seqs[:5], leads=leads(seqs[:5]), moments=moments)} == set(seqs[:5])


def test_segments_that_end_within_a_run_have_each_line_once_and_purge_it_with_the_last(broker: Broker, url: str) -> None:
    live(broker)
    whole = lines_of(url)
    settled, act, found, segments = whole[-1]["line"], broker._engine.act, [], list[Segment]()
    while segment := act(Plan("lake", "audit", settled, 100)):
        found += lines_of(url, (segment.first, segment.last))
        assert segment.lines == len(lines_of(url, (segment.first, segment.last)))
        act(Commit("lake", "audit", segment.number, segment.lines))
        segments.append(segment)
    assert found == whole and [segment.lines for segment in segments[:-1]] == [100] * (len(segments) - 1)
    removed = 0
    for segment in segments:
        first: int | None = segment.first
        while first is not None:
            gone, first = act(Purge("lake", "audit", segment.number, first, segment.last, 2))
            removed += gone
        with broker._engine.dialect.reading() as session:
            left = count_lines(session, "audit", segment.last + 1, settled)[0]
        assert left == len([line for line in whole if line["line"] > segment.last])
    assert removed == len(whole)
    with broker._engine.dialect.reading() as session:
        assert count_lines(session, "audit", 1, settled) == (0, None)


def test_after_a_removal_numbers_go_on(broker: Broker, url: str, clock: ManualClock) -> None:
    broker.configure("q", audit_retention=10)
    live(broker)
    last = lines_of(url)[-1]["line"]
    clock.advance(60)
    broker.maintain()
    live(broker)
    lines = lines_of(url)
    assert lines[0]["line"] > last
    assert Counter(line["event"] for line in lines)["enqueued"] == MESSAGES + 1


def test_rivals_never_share_a_number(url: str) -> None:
    """On PostgreSQL a run draws consecutive numbers while others draw theirs."""

    def work(number: int) -> None:
        with rowq.connect(url, maintenance=False) as broker:
            for size in (2, 100, 1, 30):
                broker.send_many(f"q{number}", range(size))
                broker.ack_many(broker.receive(f"q{number}", max=size))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    lines = lines_of(url)
    assert len({line["line"] for line in lines}) == len(lines) == 4 * 133 * 3


def test_runs_keep_to_their_block() -> None:
    assert [(seqs[0], seqs[-1]) for seqs in in_blocks(60, 130)] == [(60, 63), (64, 127), (128, 130)]
    assert list(in_blocks(5, 5)) == [[5]]
    lines = [(63, "q", 1, "a"), (1, "q", 1, "a"), (64, "q", 1, "a"), (2, "q", 2, "a"), (3, "p", 1, "a"), (4, "q", 1, None)]
    assert [seqs for seqs, *_ in grouped(lines)] == [[63, 1], [64], [2], [3], [4]]
    assert (lead(0), lead(63), lead(64)) == (-1, -1, -2)
    assert leads([1, 64]) == [-2, -1, 1, 64]


def test_what_came_before_a_run_has_the_lower_number(broker: Broker, clock: ManualClock) -> None:
    """Leases that have expired are found by the call that delivers the messages again."""
    ids = broker.send_many("q", range(5))
    broker.receive("q", max=5, lease=10)
    clock.advance(60)
    assert len(broker.receive("q", max=5)) == 5
    for id in ids:
        assert [event.event for event in broker.audit(id)] == ["enqueued", "delivered", "lease_expired", "delivered"]
