"""The examples of the document, letter by letter: only where the server listens, ids and times are other ones."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import IO, Any

import pytest

from tests.support.patience import eventually
from tests.support.serving import Served

SIMPLE = """\
curl -X POST http://localhost:8000/keyval/api/queue/enqueue \\
  -H "Content-Type: application/json" \\
  -d '{"value": {"task": "send-email", "to": "user@example.com"}}'
"""
DELAYED = """\
curl -X POST http://localhost:8000/keyval/api/queue/enqueue \\
  -H "Content-Type: application/json" \\
  -d '{
    "value": {"task": "send-reminder"},
    "options": {"delay": 60000}
  }'
"""
RETRIED = """\
curl -X POST http://localhost:8000/keyval/api/queue/enqueue \\
  -H "Content-Type: application/json" \\
  -d '{
    "value": {"task": "webhook", "url": "https://api.example.com/hook"},
    "options": {
      "backoffSchedule": [1000, 5000, 30000]
    }
  }'
"""
KEPT = """\
curl -X POST http://localhost:8000/keyval/api/queue/enqueue \\
  -H "Content-Type: application/json" \\
  -d '{
    "value": {"task": "process-payment", "orderId": "ord-123", "amount": 99.99},
    "options": {
      "backoffSchedule": [1000, 5000, 30000],
      "keysIfUndelivered": [
        ["failed-payments", "ord-123"],
        ["alerts", "payment-failure", "ord-123"]
      ]
    }
  }'
"""
LISTEN = "curl -N http://localhost:8000/keyval/api/queue/listen"
POLL = """\
# Get next message (or null if queue is empty)
curl http://localhost:8000/keyval/api/queue/poll
"""
ACK = """\
curl -X POST http://localhost:8000/keyval/api/queue/ack \\
  -H "Content-Type: application/json" \\
  -d '{"id": "01J9X3K2M5N7P8Q9R0S1T2V3W4"}'
"""
NACK = """\
curl -X POST http://localhost:8000/keyval/api/queue/nack \\
  -H "Content-Type: application/json" \\
  -d '{"id": "01J9X3K2M5N7P8Q9R0S1T2V3W4"}'
"""
STATS = "curl http://localhost:8000/keyval/api/queue/stats"
LIST_DEAD = 'curl "http://localhost:8000/keyval/api/queue/dlq?limit=50&offset=0"'
GET_DEAD = "curl http://localhost:8000/keyval/api/queue/dlq/dlq-001"
REQUEUE = "curl -X POST http://localhost:8000/keyval/api/queue/dlq/dlq-001/requeue"
DELETE_DEAD = "curl -X DELETE http://localhost:8000/keyval/api/queue/dlq/dlq-001"
PURGE = "curl -X DELETE http://localhost:8000/keyval/api/queue/dlq"
WORKER = """\
# Producer: enqueue jobs
curl -X POST http://localhost:8000/keyval/api/queue/enqueue \\
  -H "Content-Type: application/json" \\
  -d '{
    "value": {"type": "resize-image", "imageId": "img-123", "width": 800},
    "options": {"backoffSchedule": [2000, 10000, 60000]}
  }'
"""
SCHEDULED = """\
# Schedule task for 5 minutes from now
curl -X POST http://localhost:8000/keyval/api/queue/enqueue \\
  -H "Content-Type: application/json" \\
  -d '{
    "value": {"type": "cleanup-expired-sessions"},
    "options": {"delay": 300000}
  }'
"""
TRACKED = """\
# Enqueue with failure tracking
curl -X POST http://localhost:8000/keyval/api/queue/enqueue \\
  -H "Content-Type: application/json" \\
  -d '{
    "value": {"type": "charge-card", "userId": "u-123", "amount": 49.99},
    "options": {
      "backoffSchedule": [5000, 30000, 120000],
      "keysIfUndelivered": [
        ["failed-charges", "u-123"],
        ["notifications", "admin", "charge-failed"]
      ]
    }
  }'
"""
CHECK_FAILURES = """\
# Later: check for failures
curl http://localhost:8000/keyval/api/keys?prefix=failed-charges
"""
PRINTED_ID = "01J9X3K2M5N7P8Q9R0S1T2V3W4"
PRINTED_DEAD_ID = "dlq-001"

Run = Callable[..., Any]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("keyval"), "--json")
    try:
        served.announced()
        yield served
    finally:
        served.close()


@pytest.fixture
def run(server: Served) -> Run:
    """What an example prints, on a queue that nobody has used before."""
    server.ask("DELETE", "/v1/queues/keyval")

    def run(example: str, id: str = "") -> Any:
        text = example.replace("http://localhost:8000", server.url).replace(PRINTED_ID, id).replace(PRINTED_DEAD_ID, id)
        return json.loads(subprocess.run(["sh", "-c", text], capture_output=True, check=True, timeout=30).stdout)

    return run


def enqueued(run: Run, example: str) -> str:
    told = run(example)
    assert list(told) == ["ok", "id"] and told["ok"] is True and isinstance(told["id"], str)
    return str(told["id"])


def look(server: Served, id: str) -> Any:
    return server.ask("GET", f"/v1/messages/{id}").json


def die(server: Served, run: Run, id: str, error: str) -> None:
    """Its last attempt fails: the three before it need not be waited for."""
    for _ in range(3):
        delivery = server.ask("POST", "/v1/queues/keyval/deliveries", {}).json["deliveries"][0]
        assert server.ask("POST", "/v1/nack", {"receipts": [delivery["receipt"]], "delay_ms": 0}).status == 200
    assert run(POLL)["message"]["attempts"] == 4
    assert server.ask("POST", "/keyval/api/queue/nack", {"id": id, "error": error}).json == {"ok": True}


def test_simple_enqueue_and_polling(run: Run) -> None:
    id = enqueued(run, SIMPLE)
    told = run(POLL)
    assert told["message"].pop("receipt").startswith(id)  # ours, beside what is printed
    assert told == {"message": {"id": id, "value": {"task": "send-email", "to": "user@example.com"}, "attempts": 1}}
    assert run(POLL) == {"message": None}


def test_delayed_delivery(server: Served, run: Run) -> None:
    message = look(server, enqueued(run, DELAYED))
    assert message["due_at"] - message["sent_at"] == 60_000
    assert run(POLL) == {"message": None}


def test_custom_retry_schedule(server: Served, run: Run) -> None:
    message = look(server, enqueued(run, RETRIED))
    assert (message["backoff_ms"], message["max_attempts"]) == ([1000, 5000, 30000], 4)


def test_keys_if_undelivered(server: Served, run: Run) -> None:
    id = enqueued(run, KEPT)
    die(server, run, id, "declined")
    value = {"task": "process-payment", "orderId": "ord-123", "amount": 99.99}
    for prefix in ("failed-payments", "alerts/payment-failure/ord-123"):
        (entry,) = server.ask("GET", f"/keyval/api/keys?prefix={prefix}").json
        assert entry["value"] == value
    assert [dead["id"] for dead in run(LIST_DEAD)] == [id]


@contextmanager
def listening(server: Served) -> Iterator[IO[bytes]]:
    with subprocess.Popen(shlex.split(LISTEN.replace("http://localhost:8000", server.url)), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield process.stdout
        finally:
            process.kill()


def event(stream: IO[bytes]) -> list[str]:
    """The lines of the next one."""
    lines = []
    while line := stream.readline().decode().removesuffix("\n"):
        lines.append(line)
    return lines


PING = ["event: ping", "data:"]


def test_streaming(server: Served, run: Run) -> None:
    with listening(server) as stream:
        for task in ("send-email", "another"):
            id = server.ask("POST", "/keyval/api/queue/enqueue", {"value": {"task": task}}).json["id"]
            first, second, third = next(lines for lines in iter(partial(event, stream), []) if lines != PING)
            assert (first, second) == ("event: message", f"id: {id}")
            told = json.loads(third.removeprefix("data: "))
            assert third.startswith(f'data: {{"id":"{id}","value":{{"task":"{task}"}},"attempts":1')
            assert (list(told), told["value"]) == (["id", "value", "attempts", "receipt"], {"task": task})
        assert event(stream) == PING


def test_ack(run: Run) -> None:
    id = enqueued(run, SIMPLE)
    assert run(POLL)["message"]["id"] == id
    assert run(ACK, id) == {"ok": True}
    assert run(STATS) == {"pending": 0, "processing": 0, "dlq": 0, "total": 0}


def test_nack(server: Served, run: Run) -> None:
    id = enqueued(run, SIMPLE)
    assert run(POLL)["message"]["id"] == id
    assert run(NACK, id) == {"ok": True}
    assert run(STATS) == {"pending": 1, "processing": 0, "dlq": 0, "total": 1}
    assert eventually(lambda: run(POLL)["message"])["attempts"] == 2
    events = {event["event"]: event["at"] for event in server.ask("GET", f"/v1/messages/{id}/audit").json["events"]}
    assert events["delivered"] - events["nacked"] >= 1_000  # the last of each name


def test_the_printed_id_of_an_ack_is_nobodys(run: Run) -> None:
    assert run(ACK, PRINTED_ID) == run(NACK, PRINTED_ID) == {"ok": True}


def test_statistics(server: Served, run: Run) -> None:
    for value in range(15):
        server.ask("POST", "/keyval/api/queue/enqueue", {"value": value, "options": {"backoffSchedule": []}})
    for _ in range(2):
        run(NACK, run(POLL)["message"]["id"])
    for _ in range(3):
        run(POLL)
    assert list(run(STATS).items()) == [("pending", 10), ("processing", 3), ("dlq", 2), ("total", 15)]


def test_dead_letters(server: Served, run: Run) -> None:
    id = enqueued(run, RETRIED)
    die(server, run, id, "Connection timeout")
    (dead,) = run(LIST_DEAD)
    message = look(server, id)
    assert list(dead.items()) == [
        ("id", id),
        ("originalId", id),
        ("value", {"task": "webhook", "url": "https://api.example.com/hook"}),
        ("attempts", 4),  # printed as 3, which three retries cannot come to
        ("errorMessage", "Connection timeout"),
        ("originalCreatedAt", message["sent_at"]),
        ("failedAt", message["died_at"]),
    ]
    assert run(GET_DEAD, id) == dead
    assert run(REQUEUE, id) == {"ok": True, "newId": id}
    assert run(LIST_DEAD) == []
    die(server, run, id, "again")
    assert run(DELETE_DEAD, id) == {"ok": True}
    assert set(run(GET_DEAD, id)) == {"error"}
    assert run(PURGE) == {"deletedCount": 0}


def test_a_purge_counts(server: Served, run: Run) -> None:
    for value in range(42):
        server.ask("POST", "/keyval/api/queue/enqueue", {"value": value, "options": {"backoffSchedule": []}})
    deliveries = server.ask("POST", "/v1/queues/keyval/deliveries", {"max": 42}).json["deliveries"]
    server.ask("POST", "/v1/nack", {"receipts": [delivery["receipt"] for delivery in deliveries]})
    assert run(PURGE) == {"deletedCount": 42}


def test_worker_queue(server: Served, run: Run) -> None:
    id = enqueued(run, WORKER)
    with listening(server) as stream:
        assert event(stream)[1] == f"id: {id}"


def test_scheduled_tasks(server: Served, run: Run) -> None:
    message = look(server, enqueued(run, SCHEDULED))
    assert message["due_at"] - message["sent_at"] == 300_000


def test_failure_tracking(server: Served, run: Run) -> None:
    id = enqueued(run, TRACKED)
    assert run(CHECK_FAILURES) == []
    die(server, run, id, "card declined")
    (entry,) = run(CHECK_FAILURES)
    assert (entry["key"], entry["value"]) == (["failed-charges", "u-123"], {"type": "charge-card", "userId": "u-123", "amount": 49.99})
