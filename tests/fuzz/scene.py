"""A server on any database, with messages in it whose whereabouts are known: none of them may be lost by what others ask."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rowq.server.compat.api import CompatApi
from rowq.server.service import Limits
from tests.server.support import ADMIN, ask, filled, key, serving
from tests.support.database import new_database
from tests.support.patience import eventually
from tests.support.server import Server
from tests.support.tables import faults_of

KNOWN = "known-before-9c41"
"""A queue whose name nobody makes up."""
COUNT = 20


@contextmanager
def scene(kind: str, folder: Path, compat: Sequence[CompatApi] = (), limits: Limits | None = None) -> Iterator[Server]:
    """Afterwards the server still serves, every known message is there once, nobody is left over, and the tables agree with each other."""
    url = new_database(kind, folder).url
    with serving(folder, key("admin", "admin"), url=url, compat=compat, limits=limits) as server:
        filled(server)
        sent = asked(server, "messages", {"messages": [{"payload": number, "group": "one"} for number in range(COUNT)]})["ids"]
        yield server
        found: list[Any] = []
        while batch := asked(server, "deliveries", {"max": 7})["deliveries"]:
            found += batch
            receipts = {"receipts": [delivery["receipt"] for delivery in batch]}
            assert {result["outcome"] for result in ask(server, "POST", "/v1/ack", receipts, secret=ADMIN).json["results"]} == {"done"}
        assert [(delivery["id"], delivery["payload"], delivery["attempt"]) for delivery in found] == [
            (id, number, 1) for number, id in enumerate(sent)
        ]
        eventually(lambda: server.connections == 0)
        assert faults_of(url) == {}


def asked(server: Server, what: str, body: Any) -> Any:
    answer = ask(server, "POST", f"/v1/queues/{KNOWN}/{what}", body, secret=ADMIN)
    assert answer.status in (200, 201), answer
    return answer.json
