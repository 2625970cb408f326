"""A client of plugin-keyval's queue, as short as its wire format."""

from __future__ import annotations

from typing import Any

from tests.server.support import Answer, ask
from tests.support.server import Server

QUEUE = "/keyval/api/queue"


class Client:
    def __init__(self, server: Server, secret: str | None = None) -> None:
        self.server = server
        self._secret = secret

    def ask(self, method: str, path: str, body: Any = None) -> Answer:
        return ask(self.server, method, f"/keyval/api/{path}", body, secret=self._secret)

    def enqueue(self, value: Any, **options: Any) -> str:
        answer = self.ask("POST", "queue/enqueue", {"value": value, **({"options": options} if options else {})})
        told = answer.json
        assert (answer.status, set(told), told.get("ok")) == (200, {"ok", "id"}, True), answer
        return str(told["id"])

    def poll(self) -> Any:
        """A message, or None."""
        answer = self.ask("GET", "queue/poll")
        assert (answer.status, set(answer.json)) == (200, {"message"}), answer
        return answer.json["message"]

    def settle(self, verb: str, id: str, **more: Any) -> None:
        answer = self.ask("POST", f"queue/{verb}", {"id": id, **more})
        assert (answer.status, answer.json) == (200, {"ok": True}), answer

    def ack(self, id: str, **more: Any) -> None:
        self.settle("ack", id, **more)

    def nack(self, id: str, **more: Any) -> None:
        self.settle("nack", id, **more)

    def stats(self) -> tuple[int, int, int]:
        """(pending, processing, dlq)"""
        told = self.ask("GET", "queue/stats").json
        assert told["total"] == told["pending"] + told["processing"] + told["dlq"]
        return told["pending"], told["processing"], told["dlq"]

    def dead(self, query: str = "") -> list[Any]:
        answer = self.ask("GET", f"queue/dlq{query}")
        assert answer.status == 200, answer
        found: list[Any] = answer.json
        return found

    def keys(self, prefix: str) -> list[Any]:
        answer = self.ask("GET", f"keys?prefix={prefix}")
        assert answer.status == 200, answer
        found: list[Any] = answer.json
        return found

    def kill(self, value: Any, **options: Any) -> str:
        """A message that was tried once and died of it."""
        id = self.enqueue(value, backoffSchedule=[], **options)
        assert self.poll()["id"] == id
        self.nack(id)
        return id
