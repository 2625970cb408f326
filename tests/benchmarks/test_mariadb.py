"""Raw SQL on MariaDB does what it is held up for: a message goes through its tables once."""

from __future__ import annotations

from benchmarks.raw_mariadb import RawMariadb
from benchmarks.servers import Host
from tests.support.asking import ask
from tests.support.servers import shared_mariadb


def test_raw_sql_moves_a_message_from_ready_to_leased_and_out() -> None:
    with Host(shared_mariadb()).database() as url, RawMariadb(url) as queue:
        queue.send([b"a", b"b", b"c"])
        leased = queue.receive(2)
        assert [body for _, body in leased] == [b"a", b"b"]
        assert ask(url, "SELECT seq FROM ready") == [(3,)]
        assert ask(url, "SELECT seq FROM leased ORDER BY seq") == [(1,), (2,)]
        assert queue.ack(leased) == 2 and queue.ack(leased) == 0
        assert ask(url, "SELECT seq FROM messages") == [(3,)]
        assert ask(url, "SELECT count(*) FROM leased") == [(0,)]
