"""What the workers of one server share: counts that add up and never go back, and acks that find their stream."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

import rowq
from rowq import ManualClock
from rowq.model.lifecycle import REASONS
from rowq.model.message import Outcome
from rowq.server.event_streams import InFlight
from rowq.server.metrics import COUNTERS, FRESH, Metrics
from rowq.server.shared_event_streams import MOST_AT_ONCE, SharedEventStreams
from rowq.server.shared_meter import SharedMeter
from rowq.server.worker_state import PAGE_BYTES, Page, WorkerState
from rowq.store.meter import MAX_QUEUES, OTHER, Meter, Tally
from tests.server.test_metrics import Seconds
from tests.support.patience import eventually


@pytest.fixture
def worker_state() -> Iterator[WorkerState]:
    with closing(WorkerState(3)) as worker_state:
        yield worker_state


def tally(queue: str, event: str = "enqueued", times: int = 1) -> Tally:
    tally = Tally()
    tally.counts[queue, event] += times
    return tally


def sent(meter: Meter) -> dict[str, int]:
    return {label: queue.counts["enqueued"] for label, queue in meter.read()[0].items()}


class TestMeter:
    def test_each_tells_what_all_have_counted(self, worker_state: WorkerState) -> None:
        first, second = SharedMeter(worker_state, 0), SharedMeter(worker_state, 1)
        first.take(tally("q", times=3), 0)
        first.committed(calls=2, rows=3, seconds=0.5, durable=True)
        second.take(tally("q", times=4), 0)
        second.take(tally("r"), 0)
        second.committed(calls=1, rows=5, seconds=0.25, durable=False)
        second.failed()
        second.publish()
        assert sent(first) == sent(second) == {"q": 7, "r": 1}
        for meter in (first, second):
            store = meter.read()[1]
            assert (store.calls.total, store.rows.total, store.failures) == (3, 8, 1)
            assert (store.latency[True].total, store.latency[False].total) == (0.5, 0.25)

    def test_waits_and_processing_add_up(self, worker_state: WorkerState) -> None:
        meters = [SharedMeter(worker_state, 0), SharedMeter(worker_state, 1)]
        for meter in meters:
            given = Tally()
            given.delivered.append(("q", [(1, 0, 900)]))
            given.acked.append(("q", 700))
            meter.take(given, 1_000)
            meter.publish()
        for meter in meters:
            queue = meter.read()[0]["q"]
            assert (queue.waits.total, queue.processing.total) == (200, 600)
            assert sum(queue.waits.counts) == sum(queue.processing.counts) == 2

    def test_a_successor_goes_on_from_what_was_told_last(self, worker_state: WorkerState) -> None:
        first, second = SharedMeter(worker_state, 0, max_queues=1), SharedMeter(worker_state, 1)
        first.take(tally("q"), 0)
        first.take(tally("r", times=2), 0)
        assert sent(first) == {"q": 1, OTHER: 2}
        heir = SharedMeter(worker_state, 0, max_queues=1)
        heir.take(tally("q"), 0)
        heir.take(tally("s"), 0)
        assert sent(heir) == sent(second) == {"q": 2, OTHER: 3}

    def test_it_is_told_again_and_again(self, worker_state: WorkerState, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("rowq.server.shared_meter.EVERY", 0.01)
        first, second = SharedMeter(worker_state, 0), SharedMeter(worker_state, 1)
        first.start()
        for number in range(1, 4):
            first.take(tally("q"), 0)
            eventually(lambda: sent(second).get("q") == number)  # noqa: B023  # called at once
        first.close()

    def test_what_was_counted_last_is_told_at_the_end(self, worker_state: WorkerState) -> None:
        first, second = SharedMeter(worker_state, 0), SharedMeter(worker_state, 1)
        first.start()
        first.take(tally("q"), 0)
        first.close()
        assert sent(second) == {"q": 1}

    def test_a_queue_that_is_gone_is_told_by_nobody_and_begins_anew(self, worker_state: WorkerState) -> None:
        meters = [SharedMeter(worker_state, worker) for worker in range(3)]
        for meter in meters[:2]:
            meter.take(tally("q", times=5), 0)
            meter.take(tally("stays"), 0)
            meter.publish()
        assert meters[2].labels() == {"q", "stays"}
        meters[2].forget({"q"})
        assert [sent(meter) for meter in meters] == [{"stays": 2}] * 3, "though two of them have not heard of it yet"
        for meter in meters:
            meter.publish()
        meters[0].take(tally("q"), 0)
        meters[0].publish()
        assert [sent(meter) for meter in meters] == [{"stays": 2, "q": 1}] * 3
        meters[1].forget(set())
        assert [sent(meter)["q"] for meter in meters] == [1] * 3, "what was said to be gone did not come back"

    def test_a_deleted_queue_is_forgotten_by_all_together(self, worker_state: WorkerState) -> None:
        """If the worker that deletes it forgot its own part at once, what is left would look like a counter that began anew."""
        first, second = SharedMeter(worker_state, 0), SharedMeter(worker_state, 1)
        for meter in (first, second):
            meter.take(tally("q", times=5), 0)
            meter.publish()
        deleting = Tally()
        deleting.deleted.append("q")
        first.take(deleting, 0)
        assert sent(first) == sent(second) == {"q": 10}
        second.forget({"q"})
        assert sent(first) == sent(second) == {}

    def test_all_that_a_worker_can_count_has_room_on_its_page(self, worker_state: WorkerState) -> None:
        meter = SharedMeter(worker_state, 0)
        events = [*COUNTERS, *(f"dead:{reason}" for reason in REASONS)]
        many = 2**53
        for number in range(MAX_QUEUES + 1):
            name = f"{number:064}"
            filled = Tally()
            filled.counts.update({(name, event): many for event in events})
            meter.take(filled, 0)
        for queue in meter._queues.values():
            for histogram in (queue.waits, queue.processing):
                histogram.counts = [many] * len(histogram.counts)
        meter.forget({f"gone{number:060}" for number in range(20 * MAX_QUEUES)})
        told = SharedMeter(worker_state, 1).read()[0]
        assert len(told) == MAX_QUEUES + 1
        assert all(queue.counts["deleted"] == many for queue in told.values())

    def test_the_metrics_of_a_queue_that_somebody_else_deleted_disappear(self, worker_state: WorkerState, tmp_path: Path) -> None:
        seconds, clock = Seconds(), ManualClock()
        url = f"sqlite:///{tmp_path / 'jobs.db'}"
        brokers = [rowq.connect(url, clock=clock, maintenance=False) for _ in range(2)]
        meters = [SharedMeter(worker_state, worker) for worker in range(2)]
        for broker, meter in zip(brokers, meters, strict=True):
            broker._engine.attach(meter)
            broker.send("q", 1)
            broker.send("stays", 1)
            meter.publish()
        metrics = [Metrics(broker._engine, meter, monotonic=seconds) for broker, meter in zip(brokers, meters, strict=True)]
        assert all('rowq_messages_sent_total{queue="q"} 2.0' in asyncio.run(each.render()).decode() for each in metrics)
        with rowq.connect(url, clock=clock, maintenance=False) as somebody:
            somebody.purge("q")
            somebody.delete_queue("q")
        seconds.now += FRESH
        asyncio.run(metrics[0].render())
        for each in metrics:
            text = asyncio.run(each.render()).decode()
            assert 'queue="q"' not in text
            assert 'rowq_messages_sent_total{queue="stays"} 2.0' in text
        for broker in brokers:
            broker.close()


class TestPage:
    def test_it_is_empty_until_somebody_writes(self) -> None:
        page = Page()
        assert page.read() == b""
        page.write(b"one")
        page.write(b"two words")
        assert page.read() == b"two words"
        page.write(b"")
        assert page.read() == b""

    def test_a_writer_that_dies_in_the_middle_leaves_the_old_content(self) -> None:
        page = Page()
        page.write(b"a" * 100)
        page.write(b"b" * 100)
        start = page._start(1 - page._side())
        page._memory[start : start + 60] = b"c" * 60
        assert page.read() == b"b" * 100

    def test_a_reader_never_sees_half_of_it(self) -> None:
        page = Page()
        is_over = threading.Event()

        def write() -> None:
            for number in count():
                page.write(bytes([number % 256]) * (50_000 + number % 1_000))
                if is_over.is_set():
                    return

        writer = threading.Thread(target=write)
        writer.start()
        try:
            assert all(len(set(page.read())) <= 1 for _ in range(2_000))
        finally:
            is_over.set()
            writer.join()

    def test_more_than_it_takes_is_refused_and_changes_nothing(self) -> None:
        page = Page()
        page.write(b"small")
        with pytest.raises(ValueError, match="more than a page takes"):
            page.write(bytes(PAGE_BYTES))
        assert page.read() == b"small"


class TestStreams:
    def test_an_ack_elsewhere_makes_room(self, worker_state: WorkerState) -> None:
        first, second = SharedEventStreams(worker_state, 0), SharedEventStreams(worker_state, 1)
        stream = asyncio.run(opened(first))
        stream.hold(7, 70, 1_000)
        stream.hold(8, 80, 1_000)
        assert second, "it matters to the first what the second hears"
        second.learn([(7, 70), (8, 99)], [Outcome.DONE, Outcome.DONE], None)
        second.learn([(8, 80)], [Outcome.STALE], None)
        first.hear()
        assert stream.seqs == [8], "neither another lease nor a stale receipt frees it"

    def test_a_lease_that_is_extended_elsewhere_lasts(self, worker_state: WorkerState) -> None:
        first, second = SharedEventStreams(worker_state, 0), SharedEventStreams(worker_state, 1)
        stream = asyncio.run(opened(first))
        stream.hold(7, 70, 1_000)
        second.learn([(7, 70)], [Outcome.DONE], {7: 5_000})
        first.hear()
        stream.forget_ended(2_000)
        assert stream.seqs == [7]

    def test_without_streams_nobody_writes_letters(self, worker_state: WorkerState) -> None:
        first, second = SharedEventStreams(worker_state, 0), SharedEventStreams(worker_state, 1)
        stream = asyncio.run(opened(first))
        assert second
        stream.close()
        assert not first and not second
        second.learn([(7, 70)], [Outcome.DONE], None)
        with pytest.raises(BlockingIOError):
            first.inbox.recv(1)

    def test_a_worker_that_died_gets_no_letters(self, worker_state: WorkerState) -> None:
        asyncio.run(opened(SharedEventStreams(worker_state, 0)))
        worker_state.leave(0)
        assert not SharedEventStreams(worker_state, 1)

    def test_many_receipts_go_in_several_letters_and_a_full_box_holds_up_nobody(self, worker_state: WorkerState) -> None:
        first, second = SharedEventStreams(worker_state, 0), SharedEventStreams(worker_state, 1)
        stream = asyncio.run(opened(first, 10 * MOST_AT_ONCE))
        receipts = [(2**62 + seq, 2**62 + seq) for seq in range(3 * MOST_AT_ONCE)]
        for seq, token in receipts:
            stream.hold(seq, token, 1_000)
        second.learn(receipts, [Outcome.DONE] * len(receipts), None)
        first.hear()
        assert stream.seqs == []
        for _ in range(1_000):
            second.learn(receipts, [Outcome.DONE] * len(receipts), None)


async def opened(streams: SharedEventStreams, bound: int = 10) -> InFlight:
    return streams.open(bound)
