"""The plainest client of queue-ti: a method for each path."""

from __future__ import annotations

import base64
from datetime import datetime
from typing import Any

from tests.server.support import Answer, ask
from tests.support.server import Server


def millis(text: str) -> int:
    """A time as queue-ti writes it."""
    assert text.endswith("Z")
    return round(datetime.fromisoformat(text).timestamp() * 1000)


class Topics:
    def __init__(self, server: Server, secret: str | None = None) -> None:
        self.server = server
        self._secret = secret

    def with_key(self, secret: str) -> Topics:
        return Topics(self.server, secret)

    def ask(self, method: str, path: str, body: Any = None) -> Answer:
        return ask(self.server, method, f"/api{path}", body, secret=self._secret)

    def enqueue(self, topic: str, payload: bytes = b"work", **fields: Any) -> Answer:
        return self.ask("POST", "/messages", {"topic": topic, "payload": base64.b64encode(payload).decode(), **fields})

    def send(self, topic: str, payload: bytes = b"work", **fields: Any) -> str:
        answer = self.enqueue(topic, payload, **fields)
        assert answer.status == 201, answer
        return str(answer.json["id"])

    def dequeue(self, topic: str, **fields: Any) -> list[dict[str, Any]]:
        answer = self.ask("POST", "/messages/dequeue", {"topic": topic, **fields})
        assert answer.status == 200, answer
        messages: list[dict[str, Any]] = answer.json["messages"]
        return messages

    def one(self, topic: str, **fields: Any) -> dict[str, Any]:
        (message,) = self.dequeue(topic, **fields)
        return message

    def ack(self, id: str, **fields: Any) -> int:
        return self.ask("POST", f"/messages/{id}/ack", fields or None).status

    def nack(self, id: str, **fields: Any) -> int:
        return self.ask("POST", f"/messages/{id}/nack", fields or None).status

    def requeue(self, id: str) -> int:
        return self.ask("POST", f"/messages/{id}/requeue").status

    def configure(self, topic: str, **fields: Any) -> Answer:
        return self.ask("PUT", f"/topic-configs/{topic}", fields)

    def reap(self, which: str) -> Any:
        answer = self.ask("POST", f"/admin/{which}-reaper/run")
        assert answer.status == 200, answer
        return answer.json

    def bury(self, topic: str, payload: bytes = b"work") -> str:
        """A dead letter: nacked until there were no retries."""
        id = self.send(topic, payload)
        while found := self.dequeue(topic):
            assert self.nack(found[0]["id"], error="no luck") == 204
        return id
