"""PostgreSQL crashes, cuts connections, or stands behind a pooler: nothing is published in part, and readers are told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pyarrow as pa
import pytest

import rowq
from rowq.spark.publish import Mapping, open_publisher
from rowq.spark.tables import Piece, open_tabular
from tests.support.patience import eventually
from tests.support.servers import PostgresqlServer, fresh, own_pgbouncer, own_postgresql
from tests.support.tables import faults_of
from tests.tables.reading import rows_of

Q = Mapping(queue="q")


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresqlServer]:
    """One that may be killed."""
    with own_postgresql() as server:
        yield server


@pytest.fixture
def url(server: PostgresqlServer) -> str:
    server.start()
    return fresh(server)


def test_a_crash_loses_what_was_put_down_and_the_publisher_is_told(server: PostgresqlServer, url: str) -> None:
    batch = pa.record_batch({"payload": ["1"] * 100})
    with rowq.connect(url, maintenance=False) as broker, open_publisher(url) as publisher:
        publisher.publish("w", 1, [("first", publisher.stage("first", [batch], Q))])
        count = publisher.stage("second", [batch], Q)
        server.kill()
        server.start()
        with pytest.raises(rowq.StagingLost, match="100 messages were staged under 'second', but 0 are there"):
            publisher.publish("w", 2, [("second", count)])
        assert broker.stats("q").ready == 100
        assert publisher.publish("w", 1, []) is False
        assert publisher.publish("w", 2, [("third", publisher.stage("third", [batch], Q))]) is True
        assert broker.stats("q").ready == 200
    assert faults_of(url) == {}


def test_a_reader_whose_connection_is_cut_is_told_and_may_read_again(url: str) -> None:
    with rowq.connect(url, maintenance=False) as broker, open_tabular(url) as tabular:
        broker.configure("q", max_payload_bytes=4 << 20)
        broker.send_many("q", ["x" * (1 << 20)] * 40)
        batches = tabular.read(Piece("messages", 1, 100), queues=None)
        next(batches)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'COPY%' AND datname = current_database()"
            )
        with pytest.raises(rowq.StoreError):
            list(batches)
        assert len(rows_of(tabular, "messages", columns=["id"])) == 40


def test_a_server_that_is_away_is_named_without_its_password(server: PostgresqlServer, url: str) -> None:
    with rowq.connect(url, maintenance=False) as broker, open_tabular(f"{url}&timeout=1") as tabular:
        broker.send("q", 1)

        def read(kind: str) -> list[dict[str, Any]]:
            """On a busy machine a second may be too short for a server that is there."""
            with suppress(rowq.StoreError):
                return rows_of(tabular, kind)
            return []

        assert len(eventually(lambda: read("messages"))) == 1
        server.stop()
        try:
            with pytest.raises(rowq.StoreError) as told:
                list(tabular.read(Piece("audit", 1, 10), queues=["q"]))
        finally:
            server.start()
        assert "secret" not in str(told.value)
        assert len(eventually(lambda: read("audit"))) == 1


def test_behind_a_pooler_everything_works(server: PostgresqlServer, url: str) -> None:
    rowq.connect(url, maintenance=False).close()
    with own_pgbouncer(server, default_pool_size=5) as pooler:
        pooled = pooler.url(urlsplit(url).path[1:])
        with open_publisher(pooled) as publisher, open_tabular(pooled) as tabular:
            count = publisher.stage("s", [pa.record_batch({"payload": ["1"] * 10})], Q)
            assert publisher.publish("w", 1, [("s", count)]) is True
            assert len(rows_of(tabular, "messages")) == 10
            assert len(rows_of(tabular, "messages")) == 10
            assert tabular.settled("audit") == tabular.last_line("audit") == 10


def test_a_watermark_outlives_a_restart(server: PostgresqlServer, url: str) -> None:
    with rowq.connect(url, maintenance=False) as broker, open_tabular(url) as tabular:
        broker.send("q", 1)
        assert tabular.settled("audit") == 1
        server.restart()
        broker.send("q", 2)
        assert tabular.settled("audit") == tabular.last_line("audit") > 1
        assert tabular.bounds("audit", queues=None) is not None
