"""The options of a consumer, checked once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import isasyncgen, isasyncgenfunction, isgenerator, isgeneratorfunction
from typing import TypedDict

import msgspec

from rowq.engine.arguments import MAX_WAIT_MS, check_mode, receive_max, to_limit
from rowq.errors import InvalidArgument
from rowq.model.draft import MAX_RECEIVE
from rowq.model.duration import Duration, optional_ms, to_ms
from rowq.model.lifecycle import NackLimit
from rowq.model.member import DEAD_AFTER, to_silence
from rowq.model.message import Delivery
from rowq.model.queue import DeliveryMode, check_own_name

MOST_AT_ONCE = 10_000
_LAZY = "process gives a generator, which does nothing until it is iterated: do the work in a function without yield"

Process = Callable[[Delivery], Awaitable[object] | object]
"""Called for each message; returns when it is done, raises when it failed."""


class ConsumerOptions(TypedDict, total=False):
    """The options of a consumer besides its queue and its function."""

    batch_size: int | None
    """How many messages it requests at once; by default `concurrency`, so that none waits here while another consumer is idle."""
    concurrency: int
    """How many messages it processes at the same time, each in a thread or a task; 1."""
    partitioned: bool
    """Whether it prefers its own share of the messages to those of other consumers."""
    delivery: DeliveryMode
    """What becomes of a message whose consumer died; `at_least_once`."""
    lease: Duration | None
    """How long its leases last before it extends them; None: as the queue is configured."""
    wait: Duration
    """How long one receive waits for messages; 1."""
    retry: Duration | None
    """When a message returns for which the function raised; None: after its backoff, or that of the queue."""
    limit: NackLimit
    """What ends the retries of a message for which the function raises: `attempts`, or with `deadline` its deadline as well."""
    beat: Duration
    """How often it sends a heartbeat; 2."""
    dead_after: Duration
    """After how much silence a consumer is considered dead; 5."""
    remove_dead_every: int
    """How many heartbeats pass between two removals of dead consumers; 5."""


class Plan(msgspec.Struct, frozen=True):
    """The same, checked; durations are seconds, except those passed on unchanged."""

    queue: str
    process: Process
    batch_size: int
    concurrency: int
    partitioned: bool
    delivery: DeliveryMode
    lease: float | None
    wait: float
    retry_ms: int | None
    limit: NackLimit
    beat: float
    dead_after: float
    remove_dead_every: int


def to_plan(queue: str, process: Process, options: ConsumerOptions) -> Plan:
    if unknown := sorted(set(options) - set(ConsumerOptions.__annotations__)):
        raise InvalidArgument(f"unknown option {unknown[0]!r}; options are: {', '.join(ConsumerOptions.__annotations__)}")
    if not callable(process):
        raise InvalidArgument(f"process must be a function that takes a delivery, not {type(process).__name__}")
    if any(isgeneratorfunction(each) or isasyncgenfunction(each) for each in (process, type(process).__call__)):
        raise InvalidArgument(_LAZY)
    mode = options.get("delivery", "at_least_once")
    check_mode(mode)
    lease_ms = optional_ms(options.get("lease"), "lease", least=1)
    concurrency = _count(options.get("concurrency", 1), "concurrency")
    plan = Plan(
        check_own_name(queue),
        process,
        min(concurrency, MAX_RECEIVE) if (size := options.get("batch_size")) is None else receive_max(size, "batch_size"),
        concurrency,
        _flag(options.get("partitioned", False), "partitioned"),
        mode,
        None if lease_ms is None else lease_ms / 1000,
        to_ms(options.get("wait", 1), "wait", most=MAX_WAIT_MS) / 1000,
        optional_ms(options.get("retry"), "retry"),
        to_limit(options.get("limit", "attempts")),
        to_ms(options.get("beat", 2), "beat", least=1) / 1000,
        to_silence(options.get("dead_after", DEAD_AFTER)) / 1000,
        _count(options.get("remove_dead_every", 5), "remove_dead_every"),
    )
    if plan.dead_after <= plan.beat:
        raise InvalidArgument(f"dead_after must be longer than beat: {plan.dead_after:g} s are over before the next beat")
    return plan


def insist_on_work(answer: object) -> None:
    """Checks what the function returned: a generator that was never iterated has done nothing."""
    if isgenerator(answer) or isasyncgen(answer):
        raise InvalidArgument(_LAZY)


def _count(value: object, what: str) -> int:
    if type(value) is not int or not 1 <= value <= MOST_AT_ONCE:
        raise InvalidArgument(f"{what} must be between 1 and {MOST_AT_ONCE}, not {value!r}")
    return value


def _flag(value: object, what: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidArgument(f"{what} must be True or False, not {value!r}")
    return value
