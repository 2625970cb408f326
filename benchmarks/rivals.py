"""The peers: other queues of PyPI that live in a SQLite file, each behind the same two verbs.

All run with `synchronous = NORMAL`, as rowq does beside them: litequeue by its own choice, the other two because we set it. Left to
themselves those sync every commit. All are given the same object and give it back; litequeue, which takes text, as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from benchmarks.payload import payload


class Rival(NamedTuple):
    """`finish_one` takes a message and says that it is done. Both are given a number, a new one each time."""

    send: Callable[[int], object]
    finish_one: Callable[[int], object]


Opening = Callable[[Path], AbstractContextManager[Rival]]


def present() -> dict[str, Opening]:
    """Those that are installed."""
    return {name: opening for name, (package, opening) in ALL.items() if find_spec(package)}


@contextmanager
def _litequeue(room: Path) -> Iterator[Rival]:
    from litequeue import LiteQueue

    queue = LiteQueue(room / "litequeue.db")

    def finish_one(_: int) -> None:
        message = queue.pop()
        json.loads(message.data)
        queue.done(message.message_id)

    yield Rival(lambda number: queue.put(json.dumps(payload(number))), finish_one)
    queue.conn.close()


@contextmanager
def _persist_queue(room: Path) -> Iterator[Rival]:
    from persistqueue import SQLiteAckQueue

    queue = SQLiteAckQueue(str(room), auto_commit=True)
    for connection in {queue._getter, queue._putter}:
        connection.execute("PRAGMA synchronous = NORMAL")

    def finish_one(_: int) -> None:
        queue.ack(id=queue.get(block=False, raw=True)["pqid"])

    yield Rival(lambda number: queue.put(payload(number)), finish_one)
    queue.close()


@contextmanager
def _huey(room: Path) -> Iterator[Rival]:
    from huey import SqliteHuey

    huey = SqliteHuey(filename=str(room / "huey.db"))
    huey.storage.conn.execute("PRAGMA synchronous = NORMAL")

    @huey.task()  # type: ignore[untyped-decorator]  # huey is untyped
    def work(payload: dict[str, object]) -> None:
        """Never run: a worker's part is only measured up to having the task in its hands."""

    def finish_one(_: int) -> None:
        assert huey.dequeue() is not None

    yield Rival(lambda number: huey.enqueue(work.s(payload(number))), finish_one)
    huey.storage.close()


LITEQUEUE, PERSIST_QUEUE, HUEY = "litequeue", "persist-queue", "huey (no ack)"
ALL: dict[str, tuple[str, Opening]] = {
    LITEQUEUE: ("litequeue", _litequeue),
    PERSIST_QUEUE: ("persistqueue", _persist_queue),
    HUEY: ("huey", _huey),
}
LACKS = {
    LITEQUEUE: "no leases (what a dead worker took stays taken), and what is done stays in its table; it sets synchronous = NORMAL itself",
    PERSIST_QUEUE: "no leases (what a dead worker took comes back when the queue is opened again), and what is acked stays in its table; "
    "it has no setting for durability, so the benchmark sets synchronous = NORMAL on its connection",
    HUEY: "no ack: a task that was taken is gone if its worker dies; its setting is all or nothing, so the benchmark sets NORMAL here too",
}
"""What each does not do, and how it comes to the durability that all have here."""
