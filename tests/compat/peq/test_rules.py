"""The rules in SQL decide as the rules of the engine do: the same cases, made from model/ while the test runs, answered by both."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import msgspec
import pytest

from rowq.model import lifecycle
from rowq.model.duration import LONGEST_MS
from rowq.model.lifecycle import Ack, Change, Dead, Finished, Nack, Reject, Reschedule, Standing, Waiting
from rowq.model.queue import Policy, Settings, resolve
from rowq.model.retry import Backoff, Delays, Exponential, Linear, delay_ms
from tests.compat.peq.sql import Sql

NOW = 1_800_000_000_000
CHANCE = 0.3
CASES = 6_000
TIMES = (None, NOW - 1, NOW, NOW + 1, NOW + 90_000)
BACKOFFS: tuple[Backoff, ...] = (
    Delays(),
    Delays((1_000, 5_000)),
    Linear(700, cap_ms=2_000),
    Exponential(1_000, factor=3, cap_ms=50_000),
    Exponential(0, cap_ms=0),
    Exponential(20_000, plus_ms=(11_000, 99_000)),
    Exponential(1_000, factor=1.5, jitter=0.5, plus_ms=(1, 8)),
    Exponential(LONGEST_MS, factor=10, cap_ms=LONGEST_MS),
)
VERDICTS: tuple[Ack | Nack | Reject | Reschedule | str, ...] = (
    Ack(),
    Nack(),
    Nack("boom"),
    Nack("", delay=7_000),
    Nack(counts=False),
    Nack("not mine", delay=0, counts=False),
    Reject(),
    Reject("never"),
    Reschedule(3_600_000, "rescheduled"),
    Reschedule(0),
    "lease_expired",
    "expire",
)
KINDS = {Ack: "ack", Nack: "nack", Reject: "reject", Reschedule: "reschedule", Waiting: "waiting", Dead: "dead", Finished: "finished"}


def plain(value: msgspec.Struct | None, *left_out: str) -> Any:
    """As JSON says it, with the name of its kind, and without what is not there."""
    if value is None:
        return None
    named = {"kind": KINDS[type(value)]} if type(value) in KINDS else {}
    return {**named, **without_nulls({name: field for name, field in msgspec.to_builtins(value).items() if name not in left_out})}


def without_nulls(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def standings(chosen: random.Random) -> Standing:
    return Standing(
        attempts=chosen.choice((1, 2, 3, 8, 9)),
        expires_at=chosen.choice(TIMES),
        error=chosen.choice((None, "", "before")),
        deadline=chosen.choice(TIMES),
        max_attempts=chosen.choice((None, 0, 1, 3)),
        backoff=chosen.choice((None, *BACKOFFS)),
    )


def policies(chosen: random.Random) -> Policy:
    return Policy(
        max_attempts=chosen.choice((0, 3, 8)),
        backoff=chosen.choice(BACKOFFS),
        on_expire=chosen.choice(("dead", "expired", "delete")),
        on_exhausted=chosen.choice(("dead", "fail", "delete")),
        delivery=chosen.choice(("at_least_once", "at_most_once")),
        count_lease_expiry=chosen.choice((True, False)),
        lease_expiry_backoff=chosen.choice(("none", "nack")),
        keep=chosen.choice(("none", "outcome", "body")),
    )


def decided(standing: Standing, settlement: Any, policy: Policy) -> Change | None:
    if settlement == "lease_expired":
        return lifecycle.after_lease_expiry(standing, policy, NOW, lambda: CHANCE)
    if settlement == "expire":
        return lifecycle.after_expiry(standing, policy, NOW)
    return lifecycle.decide(standing, settlement, policy, NOW, lambda: CHANCE)


def asked(sql: Sql, call: str, shape: str, cases: list[dict[str, Any]]) -> list[Any]:
    """What a function of PEQ's schema answers in each case."""
    statement = f"SELECT {call} FROM ROWS FROM (json_to_recordset(%s) AS ({shape})) WITH ORDINALITY ORDER BY ordinality"
    return [row[0] for row in sql(statement, msgspec.json.encode(cases).decode())]


def test_every_change_is_decided_as_the_engine_decides_it(sql: Sql) -> None:
    chosen = random.Random(36)
    cases = [(standings(chosen), chosen.choice(VERDICTS), policies(chosen)) for _ in range(CASES)]
    answers = asked(
        sql,
        f"test01.rowq_decide(standing, verdict, policy, {NOW}, {CHANCE})",
        "standing JSONB, verdict JSONB, policy JSONB",
        [
            {
                "standing": plain(standing),
                "verdict": {"kind": settlement} if isinstance(settlement, str) else plain(settlement),
                "policy": msgspec.to_builtins(policy),
            }
            for standing, settlement, policy in cases
        ],
    )
    changes = [decided(*case) for case in cases]
    for case, answer, change in zip(cases, answers, changes, strict=True):
        assert (None if answer is None else without_nulls(answer)) == plain(change, "redeliveries"), case
    assert {type(change) for change in changes} == {Waiting, Dead, Finished, type(None)}


def test_every_retry_waits_as_long(sql: Sql) -> None:
    cases = list(product(BACKOFFS, (1, 2, 3, 7, 8, 30, 300, 1_000, 100_000), (0.0, 0.25, 0.5, 0.999)))
    shape = "backoff JSONB, retry BIGINT, chance DOUBLE PRECISION"
    given = [{"backoff": msgspec.to_builtins(backoff), "retry": retry, "chance": chance} for backoff, retry, chance in cases]
    expected = [delay_ms(backoff, retry, lambda chance=chance: chance) for backoff, retry, chance in cases]  # type: ignore[misc]
    assert asked(sql, "test01.rowq_delay_ms(backoff, retry, chance)", shape, given) == expected


def test_every_lease_and_every_life_is_as_long(sql: Sql) -> None:
    deadlines = [{"deadline": deadline} for deadline in TIMES]
    ends = [lifecycle.lease_until(NOW, 30_000, each["deadline"]) for each in deadlines]
    assert asked(sql, f"test01.rowq_lease_until({NOW}, 30000, deadline)", "deadline BIGINT", deadlines) == ends
    of_queue = [Policy(), Policy(ttl_ms=1_000), Policy(ttl_ms=1_000, ttl_from="enqueue"), Policy(ttl_from="enqueue")]
    lives = list(product((None, 0, 500), of_queue))
    cases = [{"ttl_ms": ttl_ms, "policy": msgspec.to_builtins(policy)} for ttl_ms, policy in lives]
    expected = [lifecycle.expires_at(NOW, NOW + 60, ttl_ms, policy) for ttl_ms, policy in lives]
    assert asked(sql, f"test01.rowq_expires_at(policy, {NOW}, {NOW + 60}, ttl_ms)", "ttl_ms BIGINT, policy JSONB", cases) == expected


@pytest.mark.parametrize(
    "settings",
    [
        Settings(),
        Settings(lease_ms=5, audit=False, order="ready", schema={"type": "object"}),
        Settings(backoff=Delays((1, 2, 3))),
        Settings(backoff=Delays((1, 2, 3)), max_attempts=9),
        Settings(backoff=Delays()),
        Settings(backoff=Linear(5), keep="none"),
    ],
)
def test_settings_come_to_the_same_policy(sql: Sql, settings: Settings) -> None:
    answer = asked(sql, "test01.rowq_resolve(settings)", "settings JSONB", [{"settings": msgspec.to_builtins(settings)}])
    assert answer == [msgspec.json.decode(msgspec.json.encode(resolve(settings, Settings())))]
