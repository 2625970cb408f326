"""Messages as events: as they come, never more unsettled than allowed, with a sign of life in between."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rowq.server.api import events
from rowq.server.compat.keyval import api as keyval
from rowq.server.compat.registry import open_apis
from tests.compat.keyval.client import QUEUE, Client
from tests.server.dialogue import Dialogue
from tests.server.support import ask, key, serving
from tests.support.database import new_database
from tests.support.patience import eventually
from tests.support.serving import Served
from tests.worker.moving import MovingClock


@contextmanager
def listening(client: Client, **headers: str) -> Iterator[Dialogue]:
    with Dialogue(client.server) as stream:
        stream.ask("GET", f"{QUEUE}/listen", **headers)
        status, told = stream.head()
        assert (status, told["content-type"].partition(";")[0]) == (200, "text/event-stream")
        yield stream


def message(stream: Dialogue) -> Any:
    """The next one, whatever signs of life come before."""
    name, data = next(event for event in iter(stream.event, ("end", None)) if event[0] != "ping")
    assert name == "message"
    return data


@pytest.fixture
def brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Signs of life come ten times as often."""
    monkeypatch.setattr(keyval, "PING_EVERY", 0.2)
    monkeypatch.setattr(events, "LOOK_EVERY", 0.1)


def test_messages_come_as_they_are_sent_and_are_settled_by_id(client: Client) -> None:
    with listening(client) as stream:
        ids = [client.enqueue({"n": n}) for n in range(3)]
        messages = [message(stream) for _ in ids]
        assert [(each["id"], each["value"], each["attempts"]) for each in messages] == [(id, {"n": n}, 1) for n, id in enumerate(ids)]
        assert client.stats() == (0, 3, 0)
        for id in ids:
            client.ack(id)
    assert client.stats() == (0, 0, 0)


@pytest.mark.usefixtures("brisk")
def test_a_quiet_stream_gives_signs_of_life(served: Client) -> None:
    with listening(served) as stream:
        assert [stream.event() for _ in range(3)] == [("ping", None)] * 3
        id = served.enqueue("at last")
        assert message(stream)["id"] == id


def test_a_sign_of_life_comes_within_five_seconds(served: Client) -> None:
    """As often as the API says: a busy machine may take longer than that, so the time is not measured."""
    assert keyval.PING_EVERY <= 2.5
    with listening(served) as stream:
        assert stream.event()[0] == "ping"


@pytest.mark.usefixtures("brisk")
def test_c30_ten_messages_come_before_an_ack_and_no_more(served: Client) -> None:
    ids = [served.enqueue(n) for n in range(12)]
    with listening(served) as stream:
        assert [message(stream)["id"] for _ in range(10)] == ids[:10]
        assert [stream.event()[0] for _ in range(2)] == ["ping", "ping"]
        assert served.stats() == (2, 10, 0)
        served.ack(ids[4])
        assert message(stream)["id"] == ids[10]
        served.nack(ids[7])
        assert message(stream)["id"] == ids[11]


@pytest.mark.usefixtures("brisk")
def test_in_flight_is_an_option(tmp_path: Path) -> None:
    options, clock = keyval.Options(in_flight=1, lock_duration_ms=600_000), MovingClock()
    with serving(tmp_path, compat=open_apis(("keyval",), {"keyval": options}), clock=clock) as server:
        client = Client(server)
        ids = [client.enqueue(n) for n in range(2)]
        with listening(client) as stream:
            assert message(stream)["id"] == ids[0]
            assert stream.event()[0] == "ping"
            attempts = []
            for _ in range(2):
                clock.advance(601)  # the lock ran out, and made room
                attempts.append(message(stream)["attempts"])
            assert attempts in ([2, 1], [1, 2])


def test_what_a_client_was_not_sent_is_there_for_the_next_one(served: Client) -> None:
    ids = [served.enqueue(n) for n in range(12)]
    with listening(served) as stream:
        assert message(stream)["id"] == ids[0]
        stream.leave()
    eventually(lambda: served.server.connections == 0)
    assert served.stats()[0] >= 2
    with listening(served) as stream:
        assert message(stream)["id"] in ids


def test_two_listeners_share_the_messages(served: Client) -> None:
    with listening(served) as one, listening(served) as other:
        eventually(lambda: served.server.engine.waiting == 2)
        ids = {served.enqueue(n) for n in range(20)}
        assert {message(stream)["id"] for stream in (one, other) for _ in range(10)} == ids


def test_a_message_in_several_lines_stays_one_event(served: Client) -> None:
    assert served.ask("POST", "queue/enqueue", b'{"value": {\n"a":\r\n1}}').status == 200
    with listening(served) as stream:
        assert message(stream)["value"] == {"a": 1}


def test_an_event_source_that_comes_back_goes_on(served: Client) -> None:
    id = served.enqueue("again")
    with listening(served, Last_Event_ID=id) as stream:
        assert message(stream)["id"] == id


def test_a_stopping_server_ends_its_streams(served: Client) -> None:
    with listening(served) as stream:
        eventually(lambda: served.server.engine.waiting == 1)
        served.server.call(served.server.service.stop)
        assert stream.event()[0] == "end"


@pytest.mark.usefixtures("brisk")
def test_a_stream_ends_with_the_key_that_opened_it(tmp_path: Path) -> None:
    with serving(tmp_path, key("admin", "admin"), compat=open_apis(("keyval",), {})) as server:
        secret = ask(server, "POST", "/v1/api-keys", {"name": "worker", "scopes": ["receive"]}, secret="rowq_admin").json["secret"]
        admin = Client(server, "rowq_admin")
        with listening(admin, X_API_Key=secret) as stream:
            assert stream.event()[0] == "ping"
            assert ask(server, "DELETE", "/v1/api-keys/worker", secret="rowq_admin").status == 204
            admin.enqueue("not for you")
            name, data = next(event for event in iter(stream.event, ("end", None)) if event[0] != "ping")
            assert (name, set(data)) == ("problem", {"error"})
            assert stream.event()[0] == "end"
        assert admin.poll()["value"] == "not for you"


def test_an_ack_at_another_worker_makes_room(tmp_path: Path) -> None:
    served = Served(tmp_path, "--json", "--workers", "2", "--compat", "keyval", "--url", new_database("postgresql", tmp_path).url)
    try:
        served.announced()
        ids = [served.ask("POST", f"{QUEUE}/enqueue", {"value": n}).json["id"] for n in range(15)]
        connection = served.connection()
        connection.request("GET", f"{QUEUE}/listen")
        stream = connection.getresponse()
        for id in ids:
            line = next(line for line in iter(stream.readline, b"") if line.startswith(b"id: "))
            assert line == f"id: {id}\n".encode()
            assert served.ask("POST", f"{QUEUE}/ack", {"id": id}).json == {"ok": True}
        assert served.ask("GET", f"{QUEUE}/stats").json["total"] == 0
        connection.close()
    finally:
        served.signal()
        served.ended()
        served.close()
