"""The examples that queue-ti's page prints, by a real curl at a real server; only the address is ours."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.serving import Served

DEQUEUE = """
curl -X POST http://localhost:8080/api/messages/dequeue \\
-H "Content-Type: application/json" \\
-d '{"topic": "orders", "count": 1, "visibility_timeout_seconds": 60}'
"""

ENQUEUE_WITH_KEY = """
curl -X POST http://localhost:8080/api/messages \\
-H "Content-Type: application/json" \\
-d '{"topic": "orders", "key": "order-42", "payload": "eyJhbW91bnQiOjk5fQ=="}'
"""

ENQUEUE_SAME_KEY = """
curl -X POST http://localhost:8080/api/messages \\
-H "Content-Type: application/json" \\
-d '{"topic": "orders", "key": "order-42", "payload": "eyJhbW91bnQiOjEwMH0="}'
"""

CONFIGURE = """
curl -u admin:secret -X PUT http://localhost:8080/api/topic-configs/orders \\
-H "Content-Type: application/json" \\
-d '{
"max_retries": 5,
"message_ttl_seconds": 3600,
"max_depth": 1000,
"throughput_limit": 100
}'
"""

CONFIGURED = {"topic": "orders", "max_retries": 5, "message_ttl_seconds": 3600, "max_depth": 1000, "throughput_limit": 100}
KEY = '[[server.keys]]\nname = "admin"\nsecret = "secret"\nscopes = ["send", "receive", "admin"]\n'
FIELDS = (
    *("id", "topic", "payload", "metadata", "key", "status", "retry_count", "max_retries", "last_error", "visibility_timeout"),
    *("expires_at", "original_topic", "dlq_moved_at", "created_at", "updated_at", "receipt"),
)


@pytest.fixture
def served(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Served]:
    (tmp_path / "rowq.toml").write_text(getattr(request, "param", ""), encoding="utf-8")
    server = Served(tmp_path, "--json")
    try:
        server.announced()
        yield server
    finally:
        server.close()


def run(served: Served, example: str) -> Any:
    command = example.replace("http://localhost:8080", served.url)
    done = subprocess.run(["bash", "-c", command], capture_output=True, check=True, timeout=30)
    return json.loads(done.stdout)


def test_a_key_replaces_and_a_dequeue_takes(served: Served) -> None:
    first = run(served, ENQUEUE_WITH_KEY)
    assert list(first) == ["id"]
    assert run(served, ENQUEUE_SAME_KEY) == first
    (message,) = run(served, DEQUEUE)["messages"]
    assert tuple(message) == FIELDS
    assert (message["id"], message["topic"], message["key"]) == (first["id"], "orders", "order-42")
    assert message["payload"] == "eyJhbW91bnQiOjEwMH0="
    assert (message["status"], message["retry_count"], message["max_retries"]) == ("processing", 0, 3)
    assert run(served, DEQUEUE) == {"messages": []}


def test_credentials_do_no_harm_where_nobody_asks_for_them(served: Served) -> None:
    assert run(served, CONFIGURE) == CONFIGURED


@pytest.mark.parametrize("served", [KEY], indirect=True)
def test_the_admin_of_the_example_is_a_key_of_that_name(served: Served) -> None:
    assert run(served, CONFIGURE) == CONFIGURED
    assert run(served, CONFIGURE.replace("admin:secret", "admin:other"))["code"] == "unauthorized"
    assert run(served, ENQUEUE_WITH_KEY)["code"] == "unauthorized"


@pytest.mark.parametrize("served", ['[server]\ncompat = "forq,keyval"\n'], indirect=True)
def test_an_api_that_is_not_served_is_not_found(served: Served) -> None:
    assert run(served, ENQUEUE_WITH_KEY)["code"] == "not_found"
