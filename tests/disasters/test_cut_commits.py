"""A connection is cut in the middle of a commit, before the word has reached the server or after it, when only the answer is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

import rowq
from rowq import Broker, OutcomeUnknown
from rowq.store import claim
from rowq.store.call import Settle
from rowq.store.policy import Policies
from rowq.store.postgresql.dialect import Postgresql
from tests.support.asking import ask
from tests.support.life import drain, take
from tests.support.patience import eventually
from tests.support.servers import OwnServer
from tests.support.tables import faults_of
from tests.support.way import CuttableWay, by_way_of

ACK = b"AS given (seq, token)"
"""What only the statement says that acks at once, and is committed before it is answered."""

postgresql_only = pytest.mark.parametrize("kind", ["postgresql"])
mariadb_only = pytest.mark.parametrize("kind", ["mariadb"])
before_or_after = pytest.mark.parametrize("arrives", [False, True], ids=["cut before it arrives", "cut after it has arrived"])


@pytest.fixture
def way(server: OwnServer) -> Iterator[CuttableWay]:
    with CuttableWay(server.port) as way:
        yield way


@pytest.fixture
def broker(url: str, way: CuttableWay) -> Iterator[Broker]:
    with rowq.connect(by_way_of(way.port, url), maintenance=False, timeout=60) as broker:
        yield broker


@pytest.fixture(autouse=True)
def tables_are_sound(url: str) -> Iterator[None]:
    yield
    assert faults_of(url) == {}


@pytest.fixture
def strokes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many receipts were acked by a statement that is a transaction of its own, each time. An executor does so while it knows the
    queue's settings; asked for before the broker, this keeps them known however slow the machine is."""
    monkeypatch.setattr(Postgresql, "settings_max_age_ms", 600_000)
    seen: list[int] = []
    may_ack = claim.may_ack

    def seen_ack(policies: Policies, calls: list[Settle]) -> bool:
        may = may_ack(policies, calls)
        if may:
            seen.append(sum(len(call.receipts) for call in calls))
        return may

    monkeypatch.setattr(claim, "may_ack", seen_ack)
    return seen


def cut(way: CuttableWay, word: bytes, *, arrives: bool) -> None:
    way.cut_at, way.forwards = word, arrives


def word_for_commit(broker: Broker) -> bytes:
    """As a connection says it that has said it before: by the name of the prepared statement, in a Bind."""
    dialect = broker._engine.dialect
    assert isinstance(dialect, Postgresql)
    (connection,) = dialect._connections._idle
    return b"\0" + connection._pipeline._prepared[b"COMMIT", ()] + b"\0"


def send_one(broker: Broker) -> list[str]:
    return [broker.send("q", "in doubt")]


def send_many(broker: Broker) -> list[str]:
    return broker.send_many("q", ["in doubt"] * 3)


def send_with_a_key(broker: Broker) -> list[str]:
    return [broker.send("q", "in doubt", key="k", group="g")]


@postgresql_only
@before_or_after
@pytest.mark.parametrize("is_used", [False, True], ids=["new connection", "used connection"])
@pytest.mark.parametrize("send", [send_one, send_many, send_with_a_key])
def test_a_send_is_answered_and_there_once(
    broker: Broker, way: CuttableWay, arrives: bool, is_used: bool, send: Callable[[Broker], list[str]]
) -> None:
    if is_used:
        broker.send("other", "warms the connection up")
    cut(way, word_for_commit(broker) if is_used else b"COMMIT", arrives=arrives)
    ids = send(broker)
    assert way.cuts == 1
    assert [delivery.id for delivery in broker.receive("q", max=10)] == ids


@postgresql_only
@before_or_after
def test_a_send_with_an_id_of_the_callers_own_is_no_duplicate_of_itself(broker: Broker, way: CuttableWay, arrives: bool) -> None:
    cut(way, b"COMMIT", arrives=arrives)
    id = broker.send("q", "in doubt", id="order-1")
    assert way.cuts == 1
    assert [delivery.id for delivery in broker.receive("q", max=10)] == [id]


@postgresql_only
def test_after_a_crash_the_commit_of_another_does_not_pass_for_ours(
    broker: Broker, server: OwnServer, url: str, way: CuttableWay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number that a crash has kept from the disk is given to the next transaction, and that one is committed."""
    read_fate = Postgresql._read_fate

    def crash_first(dialect: Postgresql, xid: int, life: object) -> tuple[str | None, bool]:
        server.kill()
        server.start()
        for _ in range(5):
            ask(url, "SELECT pg_current_xact_id()")
        return read_fate(dialect, xid, life)

    broker.send("other", "warms the connection up")
    monkeypatch.setattr(Postgresql, "_read_fate", crash_first)
    cut(way, word_for_commit(broker), arrives=False)
    answered: list[str] = []
    with suppress(OutcomeUnknown):
        answered.append(broker.send("q", "in doubt"))
    assert way.cuts == 1
    with rowq.connect(url, maintenance=False) as another:
        assert {delivery.id for delivery in another.receive("q", max=10)} >= set(answered)


@postgresql_only
@pytest.mark.parametrize("fate", [(None, False), ("in progress", True), ("committed", False)], ids=["no answer", "at it", "another life"])
def test_a_commit_of_which_nobody_can_tell_is_unknown(
    broker: Broker, way: CuttableWay, monkeypatch: pytest.MonkeyPatch, fate: tuple[str | None, bool]
) -> None:
    """Whether a crash gives the number of a transaction away is a matter of luck: here it is what was read."""
    broker.send("other", "warms the connection up")
    monkeypatch.setattr(Postgresql, "_read_fate", lambda *_: fate)
    cut(way, word_for_commit(broker), arrives=False)
    with pytest.raises(OutcomeUnknown):
        broker.send("q", "in doubt")
    assert way.cuts == 1


@postgresql_only
@before_or_after
def test_an_ack_by_one_statement_is_answered_as_done(strokes: list[int], broker: Broker, way: CuttableWay, arrives: bool) -> None:
    broker.send_many("q", range(2))
    delivery, other = broker.receive("q", max=2, lease=60)
    broker.nack(other)  # the executor gets to know the queue
    cut(way, ACK, arrives=arrives)
    broker.ack(delivery)
    assert (way.cuts, strokes[0]) == (1, 1)
    assert [message.id for message in broker.walk("q")] == [other.id]


@postgresql_only
@before_or_after
def test_an_ack_of_many_is_done_for_each_and_tells_what_is_not_ours(
    strokes: list[int], broker: Broker, way: CuttableWay, arrives: bool
) -> None:
    broker.send_many("q", range(3))
    deliveries = broker.receive("q", max=3, lease=60)
    broker.nack(deliveries[1])
    cut(way, ACK, arrives=arrives)
    outcomes = broker.ack_many([*deliveries, "no receipt"])
    assert (way.cuts, strokes[0]) == (1, 4)
    assert outcomes == [rowq.Outcome.DONE, rowq.Outcome.STALE, rowq.Outcome.DONE, rowq.Outcome.NOT_FOUND]


@postgresql_only
@before_or_after
def test_an_ack_in_doubt_is_not_taken_for_the_ack_of_another(
    strokes: list[int], broker: Broker, url: str, way: CuttableWay, arrives: bool
) -> None:
    broker.send_many("q", range(2))
    late, other = broker.receive("q", max=2, lease=60)
    broker.nack(other)  # the executor gets to know the queue
    with rowq.connect(url, maintenance=False) as another:
        another.ack(late)
    cut(way, ACK, arrives=arrives)
    with pytest.raises(OutcomeUnknown, match="this ack or another"):
        broker.ack(late)
    assert (way.cuts, strokes[-1]) == (1, 1)


@postgresql_only
@before_or_after
def test_an_ack_that_leaves_no_trace_is_of_unknown_outcome(strokes: list[int], broker: Broker, way: CuttableWay, arrives: bool) -> None:
    broker.configure("q", audit=False)
    broker.send_many("q", range(2))
    delivery, other = broker.receive("q", max=2, lease=60)
    broker.nack(other)  # the executor gets to know the queue
    cut(way, ACK, arrives=arrives)
    if arrives:
        with pytest.raises(OutcomeUnknown, match="this ack or another"):
            broker.ack(delivery)
    else:
        broker.ack(delivery)
    assert (way.cuts, strokes[0]) == (1, 1)
    assert [message.id for message in broker.walk("q")] == [other.id]


@postgresql_only
@before_or_after
@pytest.mark.parametrize("verb", ["nack", "reject", "ack of a group"])
def test_what_takes_a_transaction_is_done_once(broker: Broker, way: CuttableWay, arrives: bool, verb: str) -> None:
    broker.send("q", "x", group="g")
    broker.send("q", "y", group="g")
    delivery = take(broker, lease=60)
    cut(way, word_for_commit(broker), arrives=arrives)
    {"nack": broker.nack, "reject": broker.reject, "ack of a group": broker.ack}[verb](delivery)
    assert way.cuts == 1
    stats = broker.stats("q")
    assert (stats.leased, stats.dead) == (0, int(verb == "reject"))
    assert eventually(lambda: broker.receive("q"))[0].payload == ("x" if verb == "nack" else "y")


@before_or_after
def test_a_delivery_whose_answer_was_lost_comes_again_when_its_lease_has_run_out(broker: Broker, way: CuttableWay, arrives: bool) -> None:
    broker.send("q", "x")
    cut(way, b"SKIP LOCKED", arrives=arrives)
    deliveries = eventually(lambda: broker.receive("q", lease=1, wait=0.2))
    assert way.cuts == 1
    assert [delivery.payload for delivery in deliveries] == ["x"]
    broker.ack(deliveries[0])
    assert broker.stats("q").depth == 0


@mariadb_only
@before_or_after
def test_nobody_can_say_what_became_of_a_send(broker: Broker, way: CuttableWay, arrives: bool) -> None:
    broker.send("q", "before")
    cut(way, b"COMMIT", arrives=arrives)
    with pytest.raises(OutcomeUnknown, match="may or may not"):
        broker.send("q", "in doubt")
    assert way.cuts == 1
    assert drain(broker) == (["before", "in doubt"] if arrives else ["before"])


@mariadb_only
@before_or_after
def test_a_send_that_is_repeated_with_its_id_is_written_once(broker: Broker, way: CuttableWay, arrives: bool) -> None:
    broker.send("other", "before")
    cut(way, b"COMMIT", arrives=arrives)
    with pytest.raises(OutcomeUnknown):
        broker.send("q", "in doubt", id="order-1")
    if arrives:
        eventually(lambda: way.delivered == 1)  # else the second try might come first
        with pytest.raises(rowq.IdTaken):
            broker.send("q", "in doubt", id="order-1")
    else:
        broker.send("q", "in doubt", id="order-1")
    assert drain(broker) == ["in doubt"]


@mariadb_only
@before_or_after
def test_the_outcome_of_an_ack_is_unknown(broker: Broker, way: CuttableWay, arrives: bool) -> None:
    broker.send("q", "x")
    delivery = take(broker, lease=60)
    cut(way, b"COMMIT", arrives=arrives)
    with pytest.raises(OutcomeUnknown):
        broker.ack(delivery)
    assert way.cuts == 1
    assert broker.ack_many([delivery]) == [rowq.Outcome.NOT_FOUND if arrives else rowq.Outcome.DONE]
    assert broker.stats("q").depth == 0
