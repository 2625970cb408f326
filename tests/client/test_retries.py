"""Connections that are cut at the worst moments: nothing is done twice, nothing is lost, and what nobody can know is said to be unknown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rowq import (
    Broker,
    InvalidArgument,
    LeaseLost,
    MessageNotFound,
    Outcome,
    OutcomeUnknown,
    QueueFull,
    ServerUnavailable,
    StoreBusy,
)
from rowq.client.exchange import Exchange, Kind, no_answer
from rowq.client.http import Answer
from rowq.client.retrying import GRACE, Estranged, Lost, Tries
from tests.client.conftest import LONG, Connect
from tests.client.proxy import Mood, Proxy
from tests.support.background import Background
from tests.support.life import bury, depths, take
from tests.support.patience import eventually
from tests.support.server import Server

CUTS = [Mood.CUT_BEFORE, Mood.CUT_AFTER, Mood.CUT_AMID, Mood.GARBLED]
every_cut = pytest.mark.parametrize("cut", CUTS, ids=lambda mood: mood.name)


@every_cut
@pytest.mark.parametrize("times", [1, 3])
def test_a_send_that_is_cut_is_done_once(broker: Broker, direct: Broker, proxy: Proxy, cut: Mood, times: int) -> None:
    proxy.moods.extend([cut] * times)
    id = broker.send("q", "x")
    assert [message.id for message in direct.browse("q")] == [id]
    assert len(proxy.questions) == times + 1


@every_cut
def test_many_that_are_cut_are_sent_once(broker: Broker, direct: Broker, proxy: Proxy, cut: Mood) -> None:
    proxy.moods.append(cut)
    ids = broker.send_many("q", list(range(50)))
    assert [message.id for message in direct.browse("q")] == ids


@every_cut
def test_a_consumer_whose_registration_is_cut_is_there_once(broker: Broker, direct: Broker, proxy: Proxy, cut: Mood) -> None:
    proxy.moods.append(cut)
    me = broker.register("q")
    proxy.moods.append(cut)
    assert broker.beat("q", me.id) == me
    proxy.moods.append(cut)
    assert [member.id for member in direct.consumers("q")] == [me.id]
    broker.unregister("q", me.id)
    assert direct.consumers("q") == []


def test_every_try_of_a_send_carries_the_same_key_and_every_send_another(broker: Broker, proxy: Proxy) -> None:
    proxy.moods.append(Mood.CUT_AFTER)
    broker.send("q", "x")
    broker.send("q", "x")
    first, again, second = (_key_of(question) for question in proxy.questions)
    assert first == again != second


@every_cut
def test_what_is_looked_at_is_asked_for_again(broker: Broker, proxy: Proxy, cut: Mood) -> None:
    proxy.moods.append(cut)
    assert broker.queues() == []


@every_cut
def test_an_ack_that_is_cut_is_either_done_or_unknown(broker: Broker, direct: Broker, proxy: Proxy, cut: Mood) -> None:
    direct.send("q", "x")
    delivery = take(direct)
    proxy.moods.append(cut)
    if cut is Mood.CUT_BEFORE:
        broker.ack(delivery)
    else:
        with pytest.raises(OutcomeUnknown, match="may have settled it"):
            broker.ack(delivery)
    assert depths(direct) == {}


def test_an_extension_that_is_cut_is_simply_repeated(broker: Broker, direct: Broker, proxy: Proxy) -> None:
    direct.send("q", "x")
    delivery = take(direct)
    proxy.moods.append(Mood.CUT_AFTER)
    assert broker.extend(delivery, 600) > delivery.lease_until
    broker.ack(delivery)


def test_outcomes_of_many_are_told_as_they_are_found(broker: Broker, direct: Broker, proxy: Proxy) -> None:
    direct.send("q", "x")
    delivery = take(direct)
    proxy.moods.append(Mood.CUT_AFTER)
    assert broker.ack_many([delivery]) == [Outcome.NOT_FOUND]


def test_a_lease_that_was_lost_before_is_lost_and_not_unknown(broker: Broker, direct: Broker) -> None:
    direct.send("q", "x")
    delivery = take(direct)
    direct.ack(delivery)
    with pytest.raises(LeaseLost):
        broker.ack(delivery)


def test_a_refusal_after_a_lost_answer_leaves_it_unknown(broker: Broker, direct: Broker, proxy: Proxy) -> None:
    """The first try may be on its way still, wherever it was held up, and be carried out when there is room again."""
    direct.configure("q", max_depth=1)
    direct.send("q", "x")
    proxy.moods.append(Mood.CUT_BEFORE)
    with pytest.raises(OutcomeUnknown, match="the next try was refused"):
        broker.send("q", "y")
    with pytest.raises(QueueFull):
        broker.send("q", "y")
    proxy.moods.append(Mood.CUT_BEFORE)
    with pytest.raises(MessageNotFound):  # it was only to be looked at
        broker.get("0" * 26)


def test_not_now_after_a_lost_answer_is_unknown_when_the_time_is_over() -> None:
    def tried(kind: Kind) -> Tries:
        tries = Tries(Exchange(b"POST", "/", b"", no_answer, kind), 0.2, "the server")
        tries.note_loss(Lost("cut", may_have_arrived=True))
        return tries

    busy = Answer(503, b'{"code":"store_busy","error":"nothing was written"}')
    with pytest.raises(OutcomeUnknown, match="nothing was written"):
        insist(tried(Kind.REPEATED), busy)
    with pytest.raises(StoreBusy):
        insist(tried(Kind.LOOK), busy)


def insist(tries: Tries, answer: Answer) -> None:
    while tries.judge(answer) is not None:
        pass


def test_a_lost_receive_is_asked_again_and_its_messages_come_back(broker: Broker, direct: Broker, proxy: Proxy) -> None:
    direct.send_many("q", ["a", "b"])
    proxy.moods.append(Mood.CUT_AFTER)
    (delivery,) = broker.receive("q", lease=60)
    assert delivery.payload == "b"
    assert depths(direct) == {"leased": 2}


def test_a_receive_of_at_most_once_is_not_asked_again(broker: Broker, direct: Broker, proxy: Proxy) -> None:
    direct.send_many("q", ["a", "b"])
    proxy.moods.append(Mood.CUT_AFTER)
    with pytest.raises(OutcomeUnknown):
        broker.receive("q", delivery="at_most_once")
    assert len(proxy.questions) == 1


def test_a_redrive_is_not_asked_again(broker: Broker, direct: Broker, proxy: Proxy) -> None:
    bury(direct)
    proxy.moods.append(Mood.CUT_AFTER)
    with pytest.raises(OutcomeUnknown):
        broker.redrive("q", limit=1)
    assert depths(direct) == {"ready": 1}


def test_what_a_second_try_finds_gone_is_removed(broker: Broker, direct: Broker, proxy: Proxy) -> None:
    id = direct.send("q", "x")
    proxy.moods.append(Mood.CUT_AFTER)
    broker.delete(id)
    with pytest.raises(MessageNotFound):
        broker.delete(id)


IDEMPOTENT: dict[str, Callable[[Broker], object]] = {
    "configure": lambda broker: broker.configure("q", lease=7),
    "pause": lambda broker: broker.pause("q"),
    "resume": lambda broker: broker.resume("q"),
    "maintain": lambda broker: broker.maintain(),
    "stats": lambda broker: broker.stats("q"),
    "doctor": lambda broker: broker.doctor(),
}


@pytest.mark.parametrize("verb", IDEMPOTENT)
def test_what_may_be_repeated_is_repeated(broker: Broker, direct: Broker, proxy: Proxy, verb: str) -> None:
    direct.send("q", "x")
    proxy.moods.extend([Mood.CUT_AFTER, Mood.CUT_BEFORE])
    IDEMPOTENT[verb](broker)
    assert len(proxy.questions) == 3


def test_a_server_that_is_a_stranger_all_at_once_does_not_undo_what_it_may_have_heard() -> None:
    tries = Tries(Exchange(b"POST", "/", b"", no_answer, Kind.REPEATED), 600, "the server")
    tries.note_loss(Lost("cut", may_have_arrived=True))
    with pytest.raises(OutcomeUnknown, match="not trusted"):
        tries.note_loss(Estranged("its certificate is not trusted", "look at it"))


def test_a_server_that_is_away_for_a_moment_is_waited_for(connect: Connect, server: Server) -> None:
    broker = connect(server.url)
    server.stop_listening()
    sending = Background(lambda: broker.send("q", "x"))
    sending.join(0.2)
    assert sending.is_running
    server.listen_again()
    sending.result(LONG)


def test_nobody_there_is_told_within_the_timeout(connect: Connect, server: Server) -> None:
    """Without a timeout of its own a broker would try for half a minute."""
    broker = connect(server.url, timeout=0.4)
    server.stop_listening()
    with pytest.raises(ServerUnavailable, match="is it running"):
        Background(lambda: broker.send("q", "x")).result(20)


def test_a_try_takes_no_longer_than_the_timeout() -> None:
    tries = Tries(Exchange(b"POST", "/", b"", no_answer, Kind.REPEATED), 0.4, "the server")
    assert 0 < tries.seconds_to_connect <= 0.4
    assert tries.seconds <= 0.4 * (1 + GRACE)


def test_a_silent_server_is_not_waited_for_for_ever(broker: Broker, proxy: Proxy, hasty: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tries, "seconds", 0.2)
    proxy.moods.extend([Mood.SILENT] * 10)
    with pytest.raises(OutcomeUnknown):
        broker.send("q", "x")
    with pytest.raises(ServerUnavailable):
        broker.queues()


def test_what_never_answers_in_http_is_no_server(connect: Connect, proxy: Proxy) -> None:
    broker = connect(proxy.url, timeout=0.4)
    proxy.moods.extend([Mood.GARBLED] * 20)
    with pytest.raises(ServerUnavailable):
        broker.queues()


def test_a_wait_that_is_cut_goes_on(broker: Broker, direct: Broker, proxy: Proxy) -> None:
    waiting = Background(lambda: broker.receive("q", wait=LONG))
    eventually(lambda: proxy.questions)
    proxy.hang_up()
    eventually(lambda: len(proxy.questions) == 2)
    direct.send("q", "x")
    assert [delivery.payload for delivery in waiting.result(LONG)] == ["x"]


@pytest.mark.parametrize("bad", [{"max": 0}, {"lease": -1}, {"delivery": "twice"}])
def test_a_bad_argument_is_refused_before_anything_is_asked(broker: Any, proxy: Proxy, bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        broker.receive("q", **bad)
    assert proxy.questions == []


def _key_of(question: bytes) -> bytes:
    return next(line for line in question.split(b"\r\n") if line.lower().startswith(b"idempotency-key: "))
