"""A connection breaks in the middle of a commit: whether it was written is found out, or told to be unknown; never guessed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import rowq
from rowq import Broker, Outcome
from rowq.store.postgresql.dialect import Postgresql
from tests.disasters.proxy import CommitProxy, Mood
from tests.rivals.draining import drain_all
from tests.support.life import depths, take
from tests.support.patience import eventually
from tests.support.tables import faults_of

CUTS = [Mood.CUT_BEFORE, Mood.CUT_AMID, Mood.CUT_AFTER]
Deed = Callable[[Broker, rowq.Delivery], object]


@pytest.fixture
def broker(proxied_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    """An answer that took over a quarter of its lease would not be given; here it is, however slow the machine."""
    monkeypatch.setattr("rowq.engine.group_commit.running", lambda: 0.0)
    monkeypatch.setattr(Postgresql, "settings_max_age_ms", 600_000)
    with rowq.connect(proxied_url, maintenance=False) as broker:
        yield broker


@pytest.fixture
def direct(url: str) -> Iterator[Broker]:
    with rowq.connect(url, maintenance=False) as broker:
        yield broker


@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: cut.name)
def test_a_send_is_answered_once_and_is_there_once(proxy: CommitProxy, broker: Broker, direct: Broker, cut: Mood, url: str) -> None:
    broker.send("other", "so that everything is open")
    for number in range(3):
        proxy.moods.append(cut)
        ids = broker.send_many("q", [number] * 3) if number else [broker.send("q", number, key="k", group="g")]
        assert [message.id for message in direct.walk("q") if message.payload == number] == ids
        assert not proxy.moods, "the commit was not met"
    assert faults_of(url) == {}


@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: cut.name)
def test_a_receive_holds_what_it_says(proxy: CommitProxy, broker: Broker, direct: Broker, cut: Mood, url: str) -> None:
    """What was leased by an answer that nobody got comes again when that lease is over."""
    direct.send_many("q", range(5))
    broker.send("other", "so that everything is open")
    proxy.moods.append(cut)
    deliveries = broker.receive("q", max=2, lease=1)
    assert not proxy.moods, "the commit was not met"
    assert [delivery.attempt for delivery in deliveries] == [1, 1]
    assert direct.ack_many(deliveries) == [Outcome.DONE] * 2
    rest = drain_all(direct)
    assert sorted(delivery.payload for delivery in deliveries + rest) == list(range(5))
    assert faults_of(url) == {}


DEEDS: dict[str, tuple[Deed, dict[str, int]]] = {
    "ack": (lambda broker, delivery: broker.ack(delivery), {}),
    "nack": (lambda broker, delivery: broker.nack(delivery, delay=0), {"ready": 1}),
    "reject": (lambda broker, delivery: broker.reject(delivery), {"dead": 1}),
    "reschedule": (lambda broker, delivery: broker.reschedule(delivery, 60), {"scheduled": 1}),
    "delete": (lambda broker, delivery: broker.delete(delivery.id), {}),
}


@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: cut.name)
@pytest.mark.parametrize("deed", DEEDS)
def test_what_is_done_to_a_message_is_done_once(proxy: CommitProxy, broker: Broker, direct: Broker, cut: Mood, deed: str, url: str) -> None:
    do, after = DEEDS[deed]
    direct.send("q", 1, group="g")
    delivery = take(broker)
    proxy.moods.append(cut)
    do(broker, delivery)
    assert not proxy.moods, "the commit was not met"
    assert depths(direct) == after
    assert faults_of(url) == {}


@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: cut.name)
def test_an_ack_that_is_one_statement_is_done_once(proxy: CommitProxy, broker: Broker, direct: Broker, cut: Mood, url: str) -> None:
    direct.send_many("q", range(8))
    deliveries = broker.receive("q", max=7)
    for delivery in deliveries[:2]:
        broker.ack(delivery)  # the settings are known by now, and need not be read along with it
    proxy.meets_anything = True
    proxy.moods.append(cut)
    broker.ack(deliveries[2])
    proxy.moods.append(cut)
    assert broker.ack_many(deliveries[3:5]) == [Outcome.DONE] * 2
    assert not proxy.moods, "nothing was met"
    assert depths(direct) == {"leased": 2, "ready": 1}
    with pytest.raises(rowq.LeaseLost):
        broker.ack(deliveries[2])
    assert faults_of(url) == {}


def patience(broker: Broker, seconds: float) -> None:
    dialect = broker._engine.dialect
    assert isinstance(dialect, Postgresql)
    dialect.timeout = dialect._connections._timeout = seconds


@pytest.mark.parametrize(("cut", "there"), [(Mood.CUT_BEFORE, []), (Mood.CUT_AFTER, [1])], ids=["before", "after"])
def test_where_the_database_cannot_be_asked_the_outcome_is_unknown(
    proxy: CommitProxy, broker: Broker, direct: Broker, cut: Mood, there: list[int]
) -> None:
    broker.send("other", "so that everything is open")
    direct.configure("q")
    patience(broker, 0.5)  # for which it asks in vain; up to here everything may take its time
    proxy.moods.append(cut)
    proxy.is_refusing = True
    with pytest.raises(rowq.OutcomeUnknown):
        broker.send("q", 1)
    eventually(lambda: [message.payload for message in direct.walk("q")] == there)
    proxy.is_refusing = False
    patience(broker, 60)
    assert broker.send("q", 2)


@pytest.mark.parametrize("cut", [Mood.CUT_BEFORE, Mood.CUT_AFTER], ids=["before", "after"])
def test_a_doubt_is_asked_about_until_there_is_an_answer(
    proxy: CommitProxy, broker: Broker, direct: Broker, monkeypatch: pytest.MonkeyPatch, cut: Mood
) -> None:
    """The connection that asks what became of the commit is cut as well, twice."""
    read = Postgresql._read_fate

    def cut_again(dialect: Postgresql, xid: int, life: object) -> tuple[str | None, bool]:
        proxy.meets_anything = True
        proxy.moods.extend([Mood.CUT_BEFORE] * 2)
        return read(dialect, xid, life)

    monkeypatch.setattr(Postgresql, "_read_fate", cut_again)
    broker.send("q", "so that everything is open")
    proxy.moods.append(cut)
    id = broker.send("q", 1)
    assert not proxy.moods, "no question was met"
    assert [message.id for message in direct.walk("q") if message.payload == 1] == [id]


@pytest.mark.parametrize("kind", ["mariadb"])
@pytest.mark.parametrize(("cut", "there"), [(Mood.CUT_BEFORE, 0), (Mood.CUT_AFTER, 1)], ids=["before", "after"])
def test_mariadb_cannot_be_asked_and_an_id_of_ones_own_makes_a_second_try_safe(
    proxy: CommitProxy, broker: Broker, direct: Broker, cut: Mood, there: int, url: str
) -> None:
    broker.send("other", "so that everything is open")
    direct.configure("q")
    proxy.moods.append(cut)
    with pytest.raises(rowq.OutcomeUnknown):
        broker.send("q", "once", id="order-7")
    eventually(lambda: len(list(direct.walk("q"))) == there)
    try:
        broker.send("q", "once", id="order-7")
    except rowq.IdTaken:
        assert there
    assert [message.payload for message in direct.walk("q")] == ["once"]
    assert faults_of(url) == {}


@pytest.mark.parametrize("kind", ["mariadb"])
def test_a_receive_of_mariadb_whose_answer_was_lost_comes_again_when_its_lease_is_over(
    proxy: CommitProxy, broker: Broker, direct: Broker
) -> None:
    direct.send("q", "again")
    broker.send("other", "so that everything is open")
    proxy.moods.append(Mood.CUT_AFTER)
    with pytest.raises(rowq.OutcomeUnknown):
        broker.receive("q", lease=1)
    assert take(broker, wait=60).attempt == 2
