"""Metrics: the meter's counters and the depths of the queues, in the text format of Prometheus."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate

import msgspec
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

import rowq
from rowq.engine.engine import Engine
from rowq.model.lifecycle import REASONS
from rowq.model.message import State, Stats
from rowq.server.depths import Depths
from rowq.store.meter import OTHER, Histogram, Meter, QueueMeter, RequestMeter, StoreMeter

FRESH = 10.0
OLD = 30.0
PATIENCE = 5.0
"""Seconds. Depths younger than FRESH are not counted again; older than OLD they are omitted; a scrape waits PATIENCE for new ones."""

COUNTERS: dict[str, tuple[str, str]] = {
    "enqueued": ("rowq_messages_sent", "Messages sent."),
    "replaced": ("rowq_messages_replaced", "Messages whose payload a send with the same key replaced."),
    "delivered": ("rowq_messages_delivered", "Deliveries, each attempt and each delivery of a dead letter."),
    "acked": ("rowq_messages_acked", "Deliveries that were acknowledged."),
    "nacked": ("rowq_messages_nacked", "Deliveries that failed: a nack that costs an attempt."),
    "released": ("rowq_messages_released", "Deliveries that were given back: a nack that costs no attempt."),
    "rejected": ("rowq_messages_rejected", "Deliveries that were rejected."),
    "rescheduled": ("rowq_messages_rescheduled", "Deliveries that were rescheduled."),
    "extended": ("rowq_messages_extended", "Leases that were extended."),
    "lease_expired": ("rowq_messages_lease_expired", "Leases that ran out before the delivery was settled."),
    "expired": ("rowq_messages_expired", "Waiting messages that reached their TTL, or the deadline of their queue."),
    "failed": ("rowq_messages_failed", "Messages that used up their attempts on a queue that keeps no dead letters."),
    "superseded": ("rowq_messages_superseded", "Messages superseded by a newer one with the same key."),
    "redriven": ("rowq_messages_redriven", "Dead letters that were sent back into their queue."),
    "retired": ("rowq_messages_retired", "Dead letters that were removed at the end of dlq_ttl."),
    "purged": ("rowq_messages_purged", "Messages that were purged."),
    "deleted": ("rowq_messages_deleted", "Messages that were deleted one by one, or as exhausted dead letters."),
}
"""By audit event: the metric's name without its _total suffix, and its help text."""

DEAD = ("rowq_dead_letters", "Messages that became dead letters, by reason.")


class _Depth(msgspec.Struct):
    """The depths under one label: counts by state, the age of the oldest message in seconds, and whether the queue is paused."""

    states: dict[State, int]
    oldest: float
    paused: bool


class Metrics:
    """`await render()` gives the text of /metrics. `gauges` holds further gauges: a name and a function for the value."""

    def __init__(self, engine: Engine, meter: Meter, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._engine = engine
        self._meter = meter
        self.gauges: dict[str, Callable[[], float]] = {"rowq_waiting_consumers": lambda: engine.waiting}
        self.depths = Depths(engine, meter, monotonic=monotonic)
        self.depths.on_count = self._sum
        self._summed: dict[str, _Depth] = {}
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    async def render(self) -> bytes:
        await self.depths.refresh(FRESH, PATIENCE)
        # In a thread: with a thousand queues, rendering would block the event loop for too long.
        return await asyncio.to_thread(generate_latest, self._registry)

    def collect(self) -> Iterator[Metric]:
        """Called by prometheus_client for each collector of a registry."""
        (queues, store, requests), depths = self._meter.read(), self._depths_of_now()
        yield from _counters(queues)
        yield _spans("rowq_wait_seconds", "From when a message could be received to its delivery.", queues, lambda queue: queue.waits)
        yield _spans("rowq_processing_seconds", "From the delivery of a message to its ack.", queues, lambda queue: queue.processing)
        yield from _depth_gauges({label: depth for label, depth in (depths or {}).items() if label in queues})
        yield from _transactions(store)
        yield from _requests(requests)
        yield _gauge("rowq_store_readable", "Whether the depths of the queues could be read in time.", float(depths is not None))
        for name, value in self.gauges.items():
            yield _gauge(name, f"{name.removeprefix('rowq_').replace('_', ' ').capitalize()}.", value())
        info = GaugeMetricFamily("rowq_build_info", "The running version.", labels=["version"])
        info.add_metric([rowq.__version__], 1)
        yield info

    def _sum(self, stats: list[Stats]) -> None:
        now = self._engine.clock.now()
        depths: dict[str, _Depth] = {}
        for each in stats:
            depth = depths.setdefault(self._meter.label(each.queue), _Depth(dict.fromkeys(State, 0), 0.0, False))
            for state in State:
                depth.states[state] += getattr(each, state)
            if each.oldest_ready_at is not None:
                depth.oldest = max(depth.oldest, (now - each.oldest_ready_at) / 1000)
            depth.paused |= each.paused
        self._summed = depths

    def _depths_of_now(self) -> dict[str, _Depth] | None:
        return self._summed if self.depths.age <= OLD else None


def _counters(queues: Mapping[str, QueueMeter]) -> Iterator[Metric]:
    """Zeros too: Prometheus does not see an increase from a missing counter to one."""
    for event, (name, help) in COUNTERS.items():
        family = CounterMetricFamily(name, help, labels=["queue"])
        for label, queue in queues.items():
            family.add_metric([label], queue.counts[event])
        yield family
    dead = CounterMetricFamily(*DEAD, labels=["queue", "reason"])
    for label, queue in queues.items():
        for reason in REASONS:
            dead.add_metric([label, reason], queue.counts[f"dead:{reason}"])
    yield dead


def _transactions(store: StoreMeter) -> Iterator[Metric]:
    seconds = HistogramMetricFamily(
        "rowq_transaction_seconds", "Duration of transactions, by whether they had to be synced.", labels=["durable"]
    )
    for durable, histogram in store.latency.items():
        seconds.add_metric(["true" if durable else "false"], _buckets(histogram), histogram.total)
    yield seconds
    for name, help, histogram in (
        ("rowq_transaction_calls", "Calls that shared a transaction.", store.calls),
        ("rowq_transaction_rows", "Messages sent, settled or delivered in a transaction.", store.rows),
    ):
        yield HistogramMetricFamily(name, help, _buckets(histogram), histogram.total)
    yield CounterMetricFamily("rowq_transaction_failures", "Transactions that were rolled back.", store.failures)


def _requests(requests: RequestMeter) -> Iterator[Metric]:
    answers = CounterMetricFamily("rowq_http_requests", "Answered requests, by status.", labels=["request", "status"])
    for (request, hundreds), count in requests.answers.items():
        answers.add_metric([request, f"{hundreds}xx"], count)
    seconds = HistogramMetricFamily("rowq_http_seconds", "From the headers of a request to its answer.", labels=["request"])
    for request, histogram in requests.latency.items():
        seconds.add_metric([request], _buckets(histogram), histogram.total)
    yield from (answers, seconds)


def _spans(name: str, help: str, queues: Mapping[str, QueueMeter], of: Callable[[QueueMeter], Histogram]) -> Metric:
    family = HistogramMetricFamily(name, help, labels=["queue"])
    for label, queue in queues.items():
        histogram = of(queue)
        if any(histogram.counts):
            family.add_metric([label], _buckets(histogram, scale=1000), histogram.total / 1000)
    return family


def _buckets(histogram: Histogram, scale: int = 1) -> list[tuple[str, float]]:
    bounds = [*(str(bound / scale) for bound in histogram.bounds), "+Inf"]
    return list(zip(bounds, map(float, accumulate(histogram.counts)), strict=True))


def _depth_gauges(depths: Mapping[str, _Depth]) -> Iterator[Metric]:
    messages = GaugeMetricFamily("rowq_messages", "Messages in a queue, by state.", labels=["queue", "state"])
    oldest = GaugeMetricFamily("rowq_oldest_ready_age_seconds", "Age of the oldest ready message.", labels=["queue"])
    paused = GaugeMetricFamily("rowq_paused", "Whether the queue is paused.", labels=["queue"])
    for label, depth in depths.items():
        for state, count in depth.states.items():
            messages.add_metric([label, state], count)
        oldest.add_metric([label], depth.oldest)
        if label != OTHER:
            paused.add_metric([label], float(depth.paused))
    yield from (messages, oldest, paused)


def _gauge(name: str, help: str, value: float) -> Metric:
    return GaugeMetricFamily(name, help, value)
