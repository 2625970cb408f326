"""A replay takes what is meant, each once, however often it is cut off and run again."""

from __future__ import annotations

import threading
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import rowq
from rowq import InvalidArgument, LakeError
from rowq.spark import pipeline
from rowq.spark.pipeline import replaying
from rowq.spark.pipeline.replaying import Choice, Replayed, replay_archived, replay_dead
from rowq.spark.publish import Publisher
from rowq.store.dialect import Session
from rowq.store.stream import replay
from tests.pipeline.past import let_die, payloads, work_off
from tests.support.crowd import together
from tests.support.database import Database, new_database

ORDERS = Choice(queue="orders")


class Killed(Exception):
    """Stands for whatever ends a process."""


def test_dead_letters_go_back_with_their_ids(broker: rowq.Broker, url: str) -> None:
    ids = let_die(broker, ["a", "b", "c"])
    assert replay_dead(url, "again", ORDERS, dry_run=True) == Replayed(3, 0)
    assert broker.stats("orders").dead == 3
    assert replay_dead(url, "again", ORDERS) == Replayed(3, 3)
    assert [message.id for message in broker.browse("orders")] == ids
    assert replay_dead(url, "again", ORDERS) == Replayed(0, 0)


def test_a_dead_letter_that_dies_again_is_not_taken_twice(broker: rowq.Broker, url: str) -> None:
    let_die(broker, ["a", "b"])
    replay_dead(url, "again", ORDERS)
    for delivery in broker.receive("orders", max=2):
        broker.reject(delivery, reason="still no")
    assert replay_dead(url, "again", ORDERS) == Replayed(0, 0)
    assert replay_dead(url, "once-more", ORDERS) == Replayed(2, 2)


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({"error": r"timeout after \d+ s"}, {"timeout after 3 s", "timeout after 40 s"}),
        ({"error": "^no"}, {"no customer"}),
        ({"reason": "rejected"}, {"timeout after 3 s", "timeout after 40 s", "no customer"}),
        ({"reason": "message_expired"}, set()),
        ({"since_ms": 1 << 60}, set()),
        ({"until_ms": 1 << 60, "error": "40"}, {"timeout after 40 s"}),
        ({"ids": ("nobody",)}, set()),
    ],
)
def test_dead_letters_are_chosen(broker: rowq.Broker, url: str, choice: dict[str, Any], expected: set[str]) -> None:
    let_die(broker, ["timeout after 3 s", "timeout after 40 s", "no customer"])
    assert replay_dead(url, "some", Choice(queue="orders", **choice)).replayed == len(expected)
    assert {payload["doomed"] for payload in payloads(broker, "orders")} == expected


def test_one_dead_letter_is_chosen_by_its_id(broker: rowq.Broker, url: str) -> None:
    ids = let_die(broker, ["a", "b"])
    assert replay_dead(url, "one", Choice(queue="orders", ids=(ids[1],))).replayed == 1
    assert [message.id for message in broker.browse("orders")] == ids[1:]


def test_a_name_stands_for_one_choice(broker: rowq.Broker, url: str) -> None:
    let_die(broker, ["a", "b"])
    replay_dead(url, "mine", Choice(queue="orders", error="a"))
    with pytest.raises(InvalidArgument, match="another selection"):
        replay_dead(url, "mine", Choice(queue="orders", error="b"))
    with pytest.raises(InvalidArgument, match="another selection"):
        replay_dead(url, "mine", ORDERS, dry_run=True)


@pytest.mark.parametrize(
    ("name", "choice"),
    [("", {}), ("a b", {}), ("x" * 65, {}), ("n", {"error": "("}), ("n", {"queue": "orders.dlq"}), ("n", {"outcome": "acked"})],
)
def test_what_means_nothing_is_refused(broker: rowq.Broker, url: str, name: str, choice: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        replay_dead(url, name, Choice(**({"queue": "orders"} | choice)))


@pytest.mark.parametrize("rate", [0, -1, float("nan"), float("inf")])
def test_a_rate_that_is_none_is_refused(broker: rowq.Broker, url: str, rate: float) -> None:
    let_die(broker, ["a"])
    with pytest.raises(InvalidArgument):
        replay_dead(url, "rated", ORDERS, rate=rate)


def test_a_server_is_no_database() -> None:
    with pytest.raises(InvalidArgument, match="URL of its database"):
        replay_dead("http://localhost:8080", "again", ORDERS)


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
@pytest.mark.parametrize("second", ["a", "b"])
def test_of_two_first_runs_at_the_same_moment_one_is_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, second: str
) -> None:
    """Where several write at a time. The other one takes the same, or is told that it means something else."""
    url = new_database(kind, tmp_path).url
    both, looks, real = threading.Barrier(2), count(), replay.read_course

    def look(session: Session, name: str) -> replay.Course | None:
        found = real(session, name)
        if next(looks) < 2:  # neither has found anything when it begins
            both.wait(20)
        return found

    def run(error: str) -> int | str:
        try:
            return replay_dead(url, "mine", Choice(queue="orders", error=error)).replayed
        except InvalidArgument as refusal:
            return str(refusal)

    with rowq.connect(url, maintenance=False) as broker:
        let_die(broker, ["a", "b"])
        monkeypatch.setattr(replay, "read_course", look)
        answers = together(lambda: run("a"), lambda: run(second))
        assert len(payloads(broker, "orders")) == 1
    assert answers.count(1) == 1
    (other,) = [answer for answer in answers if answer != 1]
    assert other == 0 if second == "a" else "was started with another selection of messages" in str(other)


def test_archived_messages_are_sent_again_as_new_ones(spark: SparkSession, database: Database, lake: Path) -> None:
    url = database.url
    with rowq.connect(url, maintenance=False) as broker:
        ids = work_off(broker, 7)
        broker.send("orders", b"\x00\xff", key="k", group="g", priority=3)
        broker.ack(broker.receive("orders")[0])
        pipeline.archive(spark, url, lake, purge_after_ms=0)
        assert replay_archived(spark, url, lake, "again", ORDERS, dry_run=True) == Replayed(8, 0)
        assert replay_archived(spark, url, lake, "again", ORDERS) == Replayed(8, 8)
        assert replay_archived(spark, url, lake, "again", ORDERS) == Replayed(8, 0, before=8)
        sent = broker.browse("orders")
        assert sent[0].payload == b"\x00\xff"
        assert (sent[0].key, sent[0].group, sent[0].priority) == ("k", "g", 3)
        assert [message.payload["order"] for message in sent[1:]] == list(range(7))
        assert [message.headers["rowq-replay-of"] for message in sent[1:]] == ids
        assert sent[1].headers == {"shop": "berlin", "rowq-replay": "again", "rowq-replay-of": ids[0]}
        assert not {message.id for message in sent} & set(ids)


@pytest.mark.parametrize("moment", ["staged", pytest.param("published", marks=pytest.mark.prove("7 s; the earlier moment stands for it"))])
def test_a_replay_that_was_cut_off_goes_on(
    spark: SparkSession, database: Database, lake: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    url = database.url
    monkeypatch.setattr(replaying, "CHUNK", 3)
    real = Publisher.publish
    left = [1]

    def cut(publisher: Any, *given: Any) -> bool:
        if moment == "published" or left[0]:
            real(publisher, *given)
        if left[0]:
            left[0] -= 1
            return True
        raise Killed(moment)

    with rowq.connect(url, maintenance=False) as broker:
        work_off(broker, 10)
        pipeline.archive(spark, url, lake)
        with monkeypatch.context() as patch:
            patch.setattr(Publisher, "publish", cut)
            with pytest.raises(Killed):
                replay_archived(spark, url, lake, "again", ORDERS, to="copies")
        monkeypatch.setattr(replaying, "CHUNK", 4)  # what was begun with 3 goes on with 3
        work_off(broker, 2)
        pipeline.archive(spark, url, lake)  # and what came later is not meant
        done = 3 if moment == "staged" else 6
        assert len(payloads(broker, "copies")) == done
        assert replay_archived(spark, url, lake, "again", ORDERS, to="copies") == Replayed(10, 10 - done, before=done)
        assert payloads(broker, "copies") == [{"order": number} for number in range(10)]


@pytest.mark.prove("8 s of Spark; test_a_replay_that_was_cut_off_goes_on stands for it")
def test_two_runs_of_one_replay_send_nothing_twice(
    spark: SparkSession, url: str, broker: rowq.Broker, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replaying, "CHUNK", 4)
    work_off(broker, 10)
    pipeline.archive(spark, url, lake)
    real = Publisher.publish

    def overtaken(publisher: Any, *given: Any) -> bool:
        with monkeypatch.context() as patch:
            patch.setattr(Publisher, "publish", real)
            replay_archived(spark, url, lake, "again", ORDERS)
        return real(publisher, *given)

    monkeypatch.setattr(Publisher, "publish", overtaken)
    assert replay_archived(spark, url, lake, "again", ORDERS).replayed == 0
    assert sorted(payload["order"] for payload in payloads(broker, "orders")) == list(range(10))


def test_archived_messages_are_chosen_and_sent_elsewhere(spark: SparkSession, url: str, broker: rowq.Broker, lake: Path) -> None:
    broker.configure("orders", on_exhausted="fail", max_attempts=1)
    ids = work_off(broker, 3)
    broker.send_many("orders", ["bad 17", "worse"])
    for delivery in broker.receive("orders", max=2):
        broker.nack(delivery, reason=f"cannot take {delivery.payload}")
    work_off(broker, 2, "others")
    pipeline.archive(spark, url, lake)
    failed = Choice(queue="orders", outcome="failed", error=r"bad \d+")
    assert replay_archived(spark, url, lake, "failed", failed, to="repaired").replayed == 1
    assert payloads(broker, "repaired") == ["bad 17"]
    assert replay_archived(spark, url, lake, "one", Choice(queue="orders", ids=(ids[2],)), to="one").replayed == 1
    assert payloads(broker, "one") == [{"order": 2}]
    assert replay_archived(spark, url, lake, "none", Choice(queue="orders", until_ms=1)).matching == 0
    assert replay_archived(spark, url, lake, "all", Choice(queue="orders", since_ms=1), to="all").replayed == 5


def test_messages_without_a_payload_are_told(spark: SparkSession, url: str, broker: rowq.Broker, lake: Path) -> None:
    work_off(broker, 3, keep="outcome")
    work_off(broker, 2)
    pipeline.archive(spark, url, lake)
    assert replay_archived(spark, url, lake, "again", ORDERS) == Replayed(2, 2, without_body=3)


@pytest.mark.prove("5 s; tests/pipeline/test_replay.py has replays without a rate")
def test_a_replay_keeps_to_its_rate(
    spark: SparkSession, url: str, broker: rowq.Broker, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work_off(broker, 10)
    pipeline.archive(spark, url, lake)
    waits: list[float] = []
    monkeypatch.setattr(replaying, "monotonic", lambda: sum(waits))  # no time passes but in waiting
    monkeypatch.setattr(replaying, "sleep", waits.append)
    seen: list[int] = []
    replay_archived(spark, url, lake, "slowly", ORDERS, rate=4, progress=seen.append)
    assert seen == [4, 8, 10]
    assert waits == [1.0, 1.0]


def test_where_there_is_no_lake_nothing_is_replayed(spark: SparkSession, url: str, broker: rowq.Broker, lake: Path) -> None:
    with pytest.raises(LakeError, match="there is no lake"):
        replay_archived(spark, url, lake, "again", ORDERS)
    with pytest.raises(InvalidArgument, match="choose them by outcome"):
        replay_archived(spark, url, lake, "again", Choice(queue="orders", reason="rejected"))
