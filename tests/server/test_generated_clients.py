"""Clients that generators make of the description which the server gives of itself: they are made, and they work."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.generators import checked, python_generator, typescript_generator
from tests.server.support import ADMIN, ask, key, serving
from tests.support.server import Server

pytestmark = [
    pytest.mark.prove(
        "a generator is installed for it, which takes a quarter of a minute; "
        "test_generators_of_clients_find_nothing_that_they_refuse stands for it in make test"
    ),
    pytest.mark.timeout(300),
]

PYTHON = """
import sys
from rowq_client import AuthenticatedClient
from rowq_client.api.queues import get_stats
from rowq_client.api.work import ack, receive, send
from rowq_client.models import AckBody, Deliveries, MessageBody, MessagesBody, Outcome, Problem, ReceiveBody, SentMany, SentOne

url, secret = sys.argv[1:]
with AuthenticatedClient(url, secret, prefix="", auth_header_name="X-API-Key") as client:
    sent = send.sync("emails", client=client, body=MessageBody(payload={"to": "ada"}, key="welcome-42", at_ms=1))
    assert isinstance(sent, SentOne), sent
    several = send.sync("emails", client=client, body=MessagesBody([MessageBody(payload=1), MessageBody(payload_base64="AAEC")]))
    assert isinstance(several, SentMany) and len(several.ids) == 2, several
    received = receive.sync("emails", client=client, body=ReceiveBody(max_=3, wait_ms=1000))
    assert isinstance(received, Deliveries), received
    first = received.deliveries[0]
    assert (first.id, first.payload, first.key) == (sent.id, {"to": "ada"}, "welcome-42"), first
    done = ack.sync(client=client, body=AckBody([each.receipt for each in received.deliveries]))
    print([result.outcome.value for result in done.results])
    refused = get_stats.sync("nothing-here", client=client)
    assert isinstance(refused, Problem) and refused.code == "queue_not_found", refused
"""

TYPESCRIPT = """
import type { components, paths } from "./api";

type Sending = paths["/v1/queues/{queue}/messages"]["post"];
type Receiving = paths["/v1/queues/{queue}/deliveries"]["post"];

const message: components["schemas"]["MessageBody"] = { payload: { to: "ada" }, key: "welcome-42", at_ms: 1767225600000 };
const one: Sending["requestBody"]["content"]["application/json"] = message;
const several: Sending["requestBody"]["content"]["application/json"] = { messages: [message, { payload_base64: "AAEC" }] };
const asked: NonNullable<Receiving["requestBody"]>["content"]["application/json"] = { max: 10, share: [0, 3] };

export function receipts(answer: Receiving["responses"][200]["content"]["application/json"]): string[] {
  return answer.deliveries.map((delivery) => delivery.receipt);
}

// @ts-expect-error a priority is a number
const wrong: components["schemas"]["MessageBody"] = { payload: 1, priority: "high" };
// @ts-expect-error a share is two numbers
const short: components["schemas"]["ReceiveBody"] = { share: [0] };

export { asked, one, several, short, wrong };
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path, key("admin", "admin")) as server:
        yield server


@pytest.fixture
def document(server: Server, tmp_path: Path) -> Path:
    path = tmp_path / "openapi.json"
    path.write_bytes(ask(server, "GET", "/openapi.json", secret=ADMIN).body)
    return path


def test_a_python_client_is_made_and_sends_and_receives_and_acks(server: Server, document: Path, tmp_path: Path) -> None:
    python = str(python_generator())
    options = ["--path", str(document), "--output-path", str(tmp_path / "rowq_client"), "--meta", "none"]
    told = checked([python, "-m", "openapi_python_client", "generate", *options], tmp_path)
    assert re.findall(r"WARNING parsing (.+) within", told) == ["GET /v1/messages"], told  # of JSON Lines it knows nothing
    operations = [each["operationId"] for methods in json.loads(document.read_bytes())["paths"].values() for each in methods.values()]
    assert sorted(path.stem for path in tmp_path.glob("rowq_client/api/*/[!_]*.py")) == sorted(operations)
    (tmp_path / "program.py").write_text(PYTHON)
    assert checked([python, "program.py", server.url, ADMIN], tmp_path) == "['done', 'done', 'done']\n"
    assert ask(server, "GET", "/v1/queues/emails/stats", secret=ADMIN).json["ready"] == 0


def test_a_typescript_program_is_checked_against_the_types(document: Path, tmp_path: Path) -> None:
    programs = typescript_generator()
    # Else a field with a default, such as a priority, would have to be given.
    checked([str(programs / "openapi-typescript"), str(document), "--default-non-nullable=false", "--output", "api.ts"], tmp_path)
    (tmp_path / "program.ts").write_text(TYPESCRIPT)
    checked([str(programs / "tsc"), "--noEmit", "--strict", "--target", "es2022", "--module", "nodenext", "program.ts"], tmp_path)
