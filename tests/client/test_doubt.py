"""What only looks as if nothing had been done: somebody may have heard, so it is told as unknown, and nobody sends it a second time."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import rowq
from rowq import Broker, OutcomeUnknown, ServerUnavailable
from rowq.client import verbs
from rowq.engine.engine import Engine
from rowq.store.call import Execute
from tests.client.conftest import LONG, Connect
from tests.client.proxy import Mood, Proxy
from tests.support.background import Background
from tests.support.blocking import LoopThread
from tests.support.life import assert_gone, bury, depths
from tests.support.patience import eventually
from tests.support.server import Server

PAGE = "<html>we are sorry</html>"
Hog = Callable[[Path, Engine], sqlite3.Connection]


def page(status: str) -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {len(PAGE)}\r\n\r\n{PAGE}".encode()


passed_on = pytest.mark.parametrize("status", ["500 Oops", "504 Gateway Timeout", "524 A Timeout Occurred", "408 Request Timeout"])


class TestAProxyThatAnswersItself:
    @passed_on
    def test_a_send_is_done_once(self, broker: Broker, direct: Broker, proxy: Proxy, status: str) -> None:
        proxy.words = page(status)
        proxy.moods.append(Mood.USURPED)
        id = broker.send("q", "x")
        assert [message.id for message in direct.browse("q")] == [id]

    @passed_on
    def test_what_cannot_be_asked_twice_is_unknown(self, broker: Broker, direct: Broker, proxy: Proxy, status: str) -> None:
        proxy.words = page(status)
        proxy.moods.append(Mood.USURPED)
        with pytest.raises(OutcomeUnknown):
            broker.create_key("k", scopes=["send"])
        assert [key.name for key in direct.api_keys()] == ["k"]

    def test_a_success_that_cannot_be_read_is_unknown(self, broker: Broker, direct: Broker, proxy: Proxy) -> None:
        proxy.words = page("200 OK")
        proxy.moods.append(Mood.USURPED)
        with pytest.raises(OutcomeUnknown, match="cannot be read"):
            broker.send("q", "x")
        assert depths(direct) == {"ready": 1}

    def test_a_refusal_that_was_not_passed_on_is_one(self, broker: Broker, proxy: Proxy) -> None:
        proxy.words = page("404 Not Found")
        proxy.moods.append(Mood.USURPED)
        with pytest.raises(ServerUnavailable, match="is this its address"):
            broker.send("q", "x")

    @pytest.mark.parametrize("status", ["500 Oops", "200 OK"])
    def test_a_producer_sends_nothing_twice(self, proxy: Proxy, direct: Broker, status: str) -> None:
        proxy.words = page(status)
        with rowq.connect(proxy.url, timeout=LONG) as broker, broker.producer("q", linger=0.05) as producer:
            producer.push(0).result()
            proxy.moods.append(Mood.USURPED)
            for number in (1, 2, 3):
                with suppress(OutcomeUnknown):
                    producer.push(number)
        assert [message.payload for message in direct.browse("q")] == [0, 1, 2, 3]


def test_a_broker_that_is_closed_meanwhile_does_not_say_that_nothing_was_done(broker: Broker, direct: Broker, proxy: Proxy) -> None:
    proxy.moods.extend([Mood.CUT_AFTER] * 50)
    sending = Background(lambda: broker.send("q", "x"))
    eventually(lambda: len(proxy.questions) >= 2)
    broker.close()
    with pytest.raises(OutcomeUnknown, match="closed"):
        sending.result(LONG)
    assert depths(direct) == {"ready": 1}


def test_an_answer_with_something_behind_it_counts_and_its_connection_is_not_used_again(broker: Broker, proxy: Proxy) -> None:
    proxy.moods.extend([Mood.SURPLUS, Mood.SURPLUS])
    for number in range(3):
        broker.create_key(f"k{number}", scopes=["send"])
    assert len(proxy.questions) == proxy.accepted == 3


def test_settings_may_have_changed_before_a_late_try_arrives(broker: Broker, direct: Broker, proxy: Proxy) -> None:
    proxy.moods.append(Mood.HELD)
    direct.configure("q", schema={"type": "integer"})
    with pytest.raises(OutcomeUnknown, match="schema"):
        broker.send("q", "no integer")
    direct.configure("q", schema=None)
    proxy.told.set()
    assert proxy.passed_on.wait(20)
    assert depths(direct) == {"ready": 1}


@pytest.mark.parametrize("act", [lambda broker: broker.purge("q"), lambda broker: broker.delete_queue("q")], ids=["purge", "delete_queue"])
def test_what_would_take_later_messages_too_is_asked_once(
    broker: Broker, direct: Broker, proxy: Proxy, act: Callable[[Broker], object]
) -> None:
    id = direct.send("q", "x")
    proxy.moods.append(Mood.CUT_AFTER)
    with pytest.raises(OutcomeUnknown):
        act(broker)
    assert len(proxy.questions) == 1
    assert_gone(direct, id)


def test_whether_a_key_was_there_is_unknown_to_the_second_try(broker: Broker, direct: Broker, proxy: Proxy) -> None:
    proxy.moods.append(Mood.CUT_AFTER)
    with pytest.raises(OutcomeUnknown, match="may have forgotten"):
        broker.forget(["a", "b"])
    assert broker.forget(["a", "b"]) is False


class TestInPieces:
    def test_deliveries_that_were_settled_before_the_server_went_away(
        self, broker: Broker, direct: Broker, proxy: Proxy, hasty: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(verbs, "MAX_RECEIPTS", 3)
        direct.send_many("q", list(range(5)))
        deliveries = direct.receive("q", max=5)
        proxy.moods.extend([Mood.WELL, *[Mood.CUT_BEFORE] * 50])
        with pytest.raises(OutcomeUnknown, match="after 3 deliveries"):
            broker.ack_many(deliveries)
        assert depths(direct) == {"leased": 2}

    def test_dead_letters_of_whom_some_went_before_the_server_was_busy(
        self, connect: Connect, loop: LoopThread, tmp_path: Path, hog: Hog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It is not asked for again: that would take more of them than the limit says."""
        monkeypatch.setattr("rowq.engine.arguments.PIECE", 2)
        server = Server(loop, f"sqlite:///{tmp_path / 'busy.db'}", maintenance=False)
        broker = connect(server.url, timeout=LONG)
        for number in range(6):
            bury(broker, number)
        neighbour = hog(tmp_path / "busy.db", server.engine)
        with pytest.raises(OutcomeUnknown, match="after 2 dead letters"):
            broker.redrive("q", limit=4)
        neighbour.rollback()
        assert depths(broker) == {"ready": 2, "dead": 4}
        server.stop()

    def test_messages_that_were_purged_before_the_database_was_busy(
        self, tmp_path: Path, hog: Hog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("rowq.engine.bulk.PIECE", 2)
        with rowq.connect(f"sqlite:///{tmp_path / 'busy.db'}", maintenance=False) as broker:
            broker.send_many("q", list(range(5)))
            neighbour = hog(tmp_path / "busy.db", broker._engine)
            with pytest.raises(OutcomeUnknown, match="after 2 messages"):
                broker.purge("q")
            neighbour.rollback()
            assert depths(broker) == {"ready": 3}


@pytest.fixture
def hog(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hog]:
    """Another program locks the database between the first piece and the second. From then on the engine waits for a moment only."""
    opened: list[sqlite3.Connection] = []

    def open_one(path: Path, engine: Engine) -> sqlite3.Connection:
        neighbour = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        opened.append(neighbour)
        pieces = 0

        def act(*arguments: object) -> object:
            nonlocal pieces
            pieces += 1
            if pieces == 2:
                neighbour.execute("BEGIN IMMEDIATE")
                monkeypatch.setattr(engine.dialect, "timeout", 0.1)
            return Execute(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr("rowq.engine.bulk.Execute", act)
        return neighbour

    yield open_one
    for neighbour in opened:
        neighbour.close()
