"""The examples of Forq's guide as they are printed, asked with curl of a server that was started as Forq is."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

import rowq
from tests.support.serving import Served

SECRET = "a-secret-of-thirty-two-characters"  # noqa: S105  # of this test
EXAMPLE = """\
{
  "content": "I am going on an adventure!",
  "processAfter": 1672531199000
}
"""
LATER = EXAMPLE.replace("1672531199000", "%d")
CODES = {
    "bad_request.body.content.exceeds_limit",
    "bad_request.body.processAfter.in_past",
    "bad_request.body.processAfter.too_far",
    "bad_request.body.invalid",
    "unauthorized",
    "not_found.message",
}


class Printed(NamedTuple):
    status: int
    headers: dict[str, str]
    body: str

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@pytest.fixture(scope="module", params=["--http1.1", "--http2-prior-knowledge"])
def http(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def served(http: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("forq")
    environment = {"FORQ_AUTH_SECRET": SECRET, "FORQ_DB_PATH": str(folder / "forq.db"), "ROWQ_HTTP2": str("2" in http).lower()}
    server = Served(folder, "--json", **environment)
    try:
        server.announced()
        yield server
    finally:
        server.close()


class Curl:
    def __init__(self, served: Served, http: str) -> None:
        self.served = served
        self._http = http

    def __call__(self, path: str, *args: str, data: str | None = None, secret: str | None = SECRET) -> Printed:
        key = [] if secret is None else ["-H", f"X-API-Key: {secret}"]
        body = [] if data is None else ["-H", "Content-Type: application/json", "--data-binary", "@-"]
        command = ["curl", "-sS", "-D", "-", self._http, *key, *body, *args, f"{self.served.url}{path}"]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=40, input=data)
        head, _, text = done.stdout.replace("\r\n", "\n").partition("\n\n")
        first, *lines = head.splitlines()
        return Printed(int(first.split()[1]), {k.lower(): v for k, _, v in (line.partition(": ") for line in lines)}, text)


@pytest.fixture
def curl(served: Served, http: str) -> Curl:
    return Curl(served, http)


def in_an_hour() -> int:
    return int(time.time() * 1000) + 3_600_000


def test_the_printed_process_after_is_past_and_a_later_one_is_taken(curl: Curl) -> None:
    refused = curl("/api/v1/queues/adventures/messages", data=EXAMPLE)
    assert (refused.status, refused.json["code"]) == (400, "bad_request.body.processAfter.in_past")
    taken = curl("/api/v1/queues/adventures/messages", data=LATER % in_an_hour())
    assert (taken.status, taken.body) == (204, "")


def test_a_message_is_sent_received_and_acknowledged(curl: Curl) -> None:
    assert curl("/api/v1/queues/emails/messages", data='{"content": "I am going on an adventure!"}').status == 204
    message = curl("/api/v1/queues/emails/messages")
    assert message.status == 200 and message.headers["content-type"] == "application/json"
    printed = {"id": "0199164b-4dea-78d9-9b4c-c699d5037962", "content": "I am going on an adventure!"}
    assert {name: message.json[name] for name in printed} == {**printed, "id": message.json["id"]}
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", message.json["id"])
    done = curl(f"/api/v1/queues/emails/messages/{message.json['id']}/ack", "-X", "POST")
    assert (done.status, done.body) == (204, "")
    assert curl(f"/api/v1/queues/emails/messages/{message.json['id']}/ack", "-X", "POST").status == 204


def test_a_nack_with_the_printed_id_finds_nothing(curl: Curl) -> None:
    answer = curl("/api/v1/queues/emails/messages/0199164b-4dea-78d9-9b4c-c699d5037962/nack", "-X", "POST")
    assert (answer.status, answer.json["code"]) == (404, "not_found.message")


def test_a_nack_gives_the_message_back_in_a_second(curl: Curl) -> None:
    curl("/api/v1/queues/retries/messages", data='{"content": "again"}')
    first = curl("/api/v1/queues/retries/messages").json
    assert (
        curl(f"/api/v1/queues/retries/messages/{first['id']}/nack", "-X", "POST", "-H", f"X-Forq-Receipt: {first['receipt']}").status == 204
    )
    assert curl("/api/v1/queues/retries/messages").json["id"] == first["id"]
    events = {event["event"]: event["at"] for event in curl(f"/v1/messages/{first['id']}/audit").json["events"]}
    assert events["delivered"] - events["nacked"] >= 1_000  # the last of each name


def test_c33_the_error_codes_are_those_of_the_list_and_have_a_sentence_beside_them(curl: Curl) -> None:
    path = "/api/v1/queues/codes/messages"
    answers = [
        curl(path, data=json.dumps({"content": "a" * (256 * 1024 + 1)})),
        curl(path, data=EXAMPLE),
        curl(path, data=LATER % (in_an_hour() + 366 * 86_400_000)),
        curl(path, data="{"),
        curl(path, data='{"content": "x"}', secret=None),
        curl(f"{path}/nobody/nack", "-X", "POST"),
    ]
    assert [answer.status for answer in answers] == [400, 400, 400, 400, 401, 404]
    assert {answer.json["code"] for answer in answers} == CODES
    assert all(answer.json["error"] and len(answer.json) == 2 for answer in answers)


def test_the_healthcheck_takes_no_key(curl: Curl) -> None:
    answer = curl("/healthcheck", secret=None)
    assert (answer.status, answer.body) == (204, "")


def test_metrics_are_there_only_if_they_are_enabled(curl: Curl) -> None:
    assert [curl("/metrics", secret=secret).status for secret in (None, "wrong", SECRET)] == [404, 404, 404]
    assert "/metrics" not in curl("/openapi.json").json["paths"]


def test_the_messages_are_in_the_file_that_was_named(curl: Curl) -> None:
    folder = curl.served.log_file.parent
    assert curl("/api/v1/queues/filed/messages", data='{"content": "x"}').status == 204
    assert not (folder / "rowq.db").exists()
    with rowq.connect(f"sqlite:///{folder / 'forq.db'}", maintenance=False) as broker:
        assert broker.stats("filed").ready == 1
