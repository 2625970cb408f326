"""Wherever Python takes seconds it takes a timedelta, and both mean the same."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

import rowq
from rowq import Broker, Draft, ManualClock, Producer, Pushed, Within
from rowq.connect import ConnectOptions, open_engine
from rowq.model.message import PushOptions, SendOptions
from rowq.model.queue import SettingsOptions
from rowq.worker.plan import ConsumerOptions, to_plan
from tests.support.database import new_database, run
from tests.support.life import take
from tests.support.row_names import told_with

Place = Callable[[Any, str, Any], object]
"""Gives a duration to a broker, for a queue of its own, and tells what became of it."""

MINUTE = (60, 60.0, timedelta(minutes=1))
NO_DURATIONS = {"factor", "jitter", "rate"}

FUNCTIONS: dict[str, Any] = {
    **{name: verb for name, verb in vars(Broker).items() | vars(Broker.__base__).items() if callable(verb) and not name.startswith("_")},
    **{f"within.{name}": verb for name, verb in vars(Within).items() if callable(verb) and not name.startswith("_")},
    "producer.push": Producer.push,
    "pushed.result": Pushed.result,
    "pushed.exception": Pushed.exception,
    "advance": ManualClock.advance,
    "linear": rowq.linear,
    "exponential": rowq.exponential,
}
OPTIONS: dict[str, Any] = {
    "send": SendOptions,
    "Draft": Draft,
    "producer.push": PushOptions,
    "configure": SettingsOptions,
    "consumer": ConsumerOptions,
    "connect": ConnectOptions,
}


def sent(option: str, field: str) -> Place:
    return lambda broker, queue, given: getattr(broker.get(broker.send(queue, "x", **{option: given})), field)


def drafted(option: str, field: str) -> Place:
    return lambda broker, queue, given: getattr(broker.get(broker.send_many(queue, [Draft("x", **{option: given})])[0]), field)


def configured(setting: str) -> Place:
    return lambda broker, queue, given: getattr(broker.configure(queue, **{setting: given}), f"{setting}_ms")


def settled(verb: str, option: str, field: str = "due_at") -> Place:
    def place(broker: Any, queue: str, given: Any) -> object:
        id = broker.send(queue, "x")
        delivery = take(broker, queue)
        getattr(broker, verb)([delivery] if verb.endswith("_many") else delivery, **{option: given})
        return getattr(broker.get(id), field)

    return place


def beaten(broker: Any, queue: str, given: Any) -> object:
    id = broker.register(queue).id
    return broker.beat(queue, id, dead_after=given).count


def waited_for(broker: Any, queue: str, given: Any) -> object:
    """There is a message, so that the wait is over at once."""
    broker.send(queue, "x")
    return len(broker.receive(queue, wait=given))


def leased(broker: Any, queue: str, given: Any) -> object:
    broker.send(queue, "x")
    return take(broker, queue, lease=given).lease_until


VERBS: dict[str, Place] = {
    **{f"{name}.delay": how("delay", "due_at") for name, how in (("send", sent), ("Draft", drafted))},
    **{f"{name}.ttl": how("ttl", "expires_at") for name, how in (("send", sent), ("Draft", drafted))},
    **{f"{name}.deadline": how("deadline", "deadline") for name, how in (("send", sent), ("Draft", drafted))},
    "send.backoff": lambda broker, queue, given: broker.get(broker.send(queue, "x", backoff=[given])).backoff,
    "Draft.backoff": lambda broker, queue, given: broker.get(broker.send_many(queue, [Draft("x", backoff=[given])])[0]).backoff,
    "configure.backoff": lambda broker, queue, given: broker.configure(queue, backoff=[given]).backoff,
    **{f"configure.{name}": configured(name) for name in ("lease", "ttl", "retention", "audit_retention", "dlq_ttl")},
    "receive.wait": waited_for,
    "receive.lease": leased,
    **{f"{verb}.delay": settled(verb, "delay") for verb in ("nack", "nack_many", "reschedule", "reschedule_many")},
    **{f"{verb}.lease": settled(verb, "lease", "lease_until") for verb in ("extend", "extend_many")},
    "register.dead_after": lambda broker, queue, given: broker.register(queue, dead_after=given).count,
    "beat.dead_after": beaten,
    "consumers.dead_after": lambda broker, queue, given: len(broker.consumers(queue, dead_after=given)),
    "all_consumers.dead_after": lambda broker, queue, given: len(broker.all_consumers(dead_after=given)),
}
"""In process and over HTTP."""


def pushed(option: str, field: str) -> Place:
    return lambda broker, queue, given: getattr(broker.get(broker.producer(queue).push("x", **{option: given}).result()), field)


def within(verb: str) -> Place:
    def place(broker: Any, queue: str, given: Any) -> object:
        id = broker.send(queue, "x")
        delivery = take(broker, queue)
        connection = broker.database.connection()
        run(connection, "CREATE TABLE IF NOT EXISTS orders (name TEXT)")
        run(connection, "INSERT INTO orders VALUES ('lamp')")
        getattr(broker.within(connection), verb)([delivery] if verb.endswith("_many") else delivery, delay=given)
        connection.commit()
        connection.close()
        return broker.get(id).due_at

    return place


def planned(option: str, field: str | None = None) -> Place:
    rest: dict[str, Any] = {"dead_after": 3600} if option == "beat" else {}
    return lambda broker, queue, given: getattr(to_plan(queue, print, {**rest, option: given}), field or option)  # type: ignore[typeddict-item]


def connected(broker: Any, queue: str, given: Any) -> object:
    engine = open_engine(broker.database.url, timeout=given)
    engine.close()
    return engine.dialect.timeout


def advanced(broker: Any, queue: str, given: Any) -> object:
    clock = ManualClock(0)
    clock.advance(given)
    return clock.now()


AROUND: dict[str, Place] = {
    "connect.timeout": connected,
    "advance.seconds": advanced,
    "producer.linger": lambda broker, queue, given: broker.producer(queue, linger=given)._linger,
    "producer.push.delay": pushed("delay", "due_at"),
    "producer.push.ttl": pushed("ttl", "expires_at"),
    "producer.push.deadline": lambda broker, queue, given: broker.producer(queue).push("x", deadline=given).done(),
    "producer.push.backoff": lambda broker, queue, given: broker.get(broker.producer(queue).push("x", backoff=[given]).result()).backoff,
    "pushed.result.timeout": lambda broker, queue, given: isinstance(broker.producer(queue).push("x").result(given), str),
    "pushed.exception.timeout": lambda broker, queue, given: broker.producer(queue).push("x").exception(given),
    **{f"consumer.{option}": planned(option) for option in ("lease", "wait", "beat", "dead_after")},
    "consumer.retry": planned("retry", "retry_ms"),
    **{f"within.{verb}.delay": within(verb) for verb in ("nack", "nack_many", "reschedule", "reschedule_many")},
    "linear.step": lambda broker, queue, given: rowq.linear(given),
    "linear.cap": lambda broker, queue, given: rowq.linear(1, given),
    "exponential.base": lambda broker, queue, given: rowq.exponential(given),
    "exponential.cap": lambda broker, queue, given: rowq.exponential(1, cap=given),
    "exponential.plus": lambda broker, queue, given: rowq.exponential(1, plus=(given, given)),
}
"""What has no verb over HTTP, or is the same there."""


def means_the_same(broker: Any, name: str, place: Place) -> None:
    with told_with(name):
        first, *others = [place(broker, f"{name}.{number}", given) for number, given in enumerate(MINUTE)]
        assert others == [first, first]


def test_a_timedelta_means_what_its_seconds_mean(broker: Broker) -> None:
    for name, place in VERBS.items():
        means_the_same(broker, name, place)


@pytest.mark.parametrize("name", AROUND)
def test_around_the_verbs_too(name: str, tmp_path: Path) -> None:
    database = new_database("sqlite", tmp_path)
    with rowq.connect(database.url, clock=ManualClock(), maintenance=False) as broker:
        broker.database = database  # type: ignore[attr-defined]
        means_the_same(broker, name, AROUND[name])


def parts(hint: Any) -> list[Any]:
    return [hint, *(part for each in get_args(hint) for part in parts(each))]


def hinted() -> dict[str, list[Any]]:
    """Every parameter and option of Python's interface, with the types that it may have."""
    return {
        f"{name}.{parameter}": parts(hint)
        for name, each in [*FUNCTIONS.items(), *OPTIONS.items()]
        for parameter, hint in get_type_hints(each).items()
        if parameter != "return"
    }


def test_no_place_is_left_out() -> None:
    assert {name for name, types in hinted().items() if timedelta in types} == VERBS.keys() | AROUND.keys()


def test_seconds_are_nowhere_a_number_alone() -> None:
    alone = {name for name, types in hinted().items() if float in types and timedelta not in types}
    assert {name.rpartition(".")[2] for name in alone} == NO_DURATIONS
