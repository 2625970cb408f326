"""The pages of a server with several workers: one of them tells what all of them do."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from tests.admin.visiting import Visitor
from tests.server.test_workers import Crew, ask
from tests.support.database import new_database
from tests.support.patience import eventually
from tests.support.serving import Served


class InAHurry(Served):
    """Workers are forked, so this holds for them as well."""

    program = ("-c", "from rowq.server.admin import rates; rates.EVERY = 0.1; from rowq.cli.main import main; main()")


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_whatever_worker_does_it_the_pages_see_it(kind: str, tmp_path: Path) -> None:
    with closing(Crew(InAHurry, tmp_path, new_database(kind, tmp_path).url)) as crew:
        crew.served.announced()
        assert crew.served.admin is not None
        visitor = Visitor(crew.served.admin)
        connections = [crew.connection_to(worker) for worker in crew.workers()]
        assert ask(connections[0], "PUT", "/v1/queues/quiet", {"audit": False}).status == 200
        assert "Worker processes 2" in visitor.get("/health").words

        def send(queue: str, count: int) -> None:
            for connection in connections:
                assert ask(connection, "POST", f"/v1/queues/{queue}/messages", {"messages": [{"payload": 1}] * count}).status == 201

        def shows_quiet() -> bool:
            """What was sent before the first look is not known of a queue without an audit."""
            send("quiet", 1)
            return visitor.get("/?name=quiet").text.count("sent, 0 done, 0 failed</title>") == 2

        send("loud", 30)
        eventually(lambda: "loud 60 0 0 0 0" in visitor.get("/").words)
        eventually(lambda: "60 sent, 0 done, 0 failed" in visitor.get("/").text)
        eventually(shows_quiet)
