"""What only MariaDB and MySQL can get wrong: texts and bytes on the wire, keys longer than an index, locks, and an application's own
transaction."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any

import pymysql
import pytest

import rowq
from rowq import Broker, Draft, InvalidArgument, PayloadTooLarge, SchemaMismatch, StoreBusy
from rowq.clock import SharedClock
from rowq.store import migrations
from rowq.store.mariadb.dialect import Mariadb
from rowq.store.mariadb.statement import MariadbQueries, quoting
from tests.support.background import Background
from tests.support.database import MariadbDatabase, run
from tests.support.life import bury, depths, drain, take
from tests.support.patience import eventually
from tests.support.row_names import row_name
from tests.support.servers import shared_mariadb

NASTY = ["'", "\\", "\\'", "''", '"', "%s", "%(x)b", ";", "-- ", "/*! */", ":queue", "\n\r\t\x1a", "ö", "😀", "a ", " a", "?", "\\\\'"]


@pytest.fixture
def database() -> MariadbDatabase:
    return MariadbDatabase()


@pytest.fixture
def broker(database: MariadbDatabase) -> Iterator[Broker]:
    with rowq.connect(database.url, maintenance=False, timeout=5) as broker:
        yield broker


@pytest.fixture
def app(database: MariadbDatabase) -> Iterator[Any]:
    """The application's own connection, as its driver makes it: REPEATABLE READ, and a transaction begins by itself."""
    connection = database.connection()
    yield connection
    connection.close()


def dialect_of(broker: Broker) -> Mariadb:
    dialect = broker._engine.dialect
    assert isinstance(dialect, Mariadb)
    return dialect


@pytest.mark.parametrize("text", NASTY, ids=row_name)
def test_any_text_comes_back_as_it_went(broker: Broker, text: str) -> None:
    broker.send("q", text, key=text, group=text, headers={"h": text})
    delivery = take(broker, consumer=text)
    assert (delivery.payload, delivery.key, delivery.group, delivery.headers) == (text, text, text, {"h": text})
    broker.reject(delivery, reason=text)
    assert broker.get(delivery.id).error == text
    assert broker.redrive("q", where=rowq.Where(error=text, key=text)) == 1


def test_every_byte_comes_back_as_it_went(broker: Broker) -> None:
    everything = bytes(range(256)) * 3 + b"\\'" * 5 + b"'\\"
    broker.send_many("q", [everything, everything[::-1], b"'", b"\\", b""])
    assert drain(broker) == [everything, everything[::-1], b"'", b"\\", b""]


@pytest.mark.parametrize("other", ["a ", "A", "a\u0301", "á", "ａ"], ids=row_name)
def test_keys_and_groups_compare_by_byte(broker: Broker, other: str) -> None:
    """Most collations take these for the same as "a"."""
    for name in ("a", other):
        broker.send("keyed", name, key=name)
        broker.send("grouped", name, group=name)
    assert drain(broker, "keyed") == ["a", other]
    assert len(broker.receive("grouped", max=10)) == 2


def test_keys_of_255_characters_of_four_bytes_fit(broker: Broker) -> None:
    longest = "😀" * 255
    broker.send("q", 1, key=longest, group=longest)
    broker.send("q", 2, key=longest + "", group=longest)
    assert drain(broker) == [2]


LONG = ["x" * 1024] * 19


def test_an_undelivered_key_may_be_longer_than_an_index(broker: Broker) -> None:
    """Twenty parts of 1,024 characters: they differ only behind what an index can hold."""
    for last in ("b", "a", "b"):
        bury(broker, f"payload of {last}", keys_if_undelivered=[[*LONG, last], [*LONG[:3], last], ["short", last]])
    found = broker.keys(LONG)
    assert sorted((entry.key[-1], entry.value) for entry in found) == [("a", "payload of a"), ("b", "payload of b")]
    assert [entry.key for entry in broker.keys([*LONG, "a"])] == [[*LONG, "a"]]
    assert [entry.key[-1] for entry in broker.keys("short")] == ["a", "b"]
    assert len(broker.keys()) == 6
    assert broker.forget([*LONG, "a"]) is True
    assert broker.forget([*LONG, "a"]) is False
    assert [entry.key for entry in broker.keys(LONG)] == [[*LONG, "b"]]


def test_undelivered_keys_come_in_order(broker: Broker) -> None:
    names = ["b", "a", "ü", "😀", "B", "a" * 900, "ab", "10", "9"]
    for name in names:
        bury(broker, name, keys_if_undelivered=[["k", name]])
    assert [entry.value for entry in broker.keys("k")] == sorted(names, key=lambda name: f'["k","{name}"]'.encode())


def test_a_list_that_holds_nothing_is_equal_to_nothing(broker: Broker) -> None:
    with dialect_of(broker).reading() as session:
        assert session.rows("find_messages", seqs=[]) == []


@pytest.mark.parametrize("value", [object(), {1}, 1j, memoryview(b"x")], ids=row_name)
def test_what_cannot_be_quoted_is_not_sent(value: Any) -> None:
    with pytest.raises(TypeError, match="cannot be stored"):
        quoting(backslashes=True)(value)


def test_values_are_quoted_as_the_connection_reads_them() -> None:
    assert [quoting(backslashes=True)(value) for value in ("\\'", b"\\'", True, None, 1.5, -7)] == [
        *(b"'\\\\'''", b"_binary'\\\\'''", b"1", b"NULL", b"1.5", b"-7")
    ]
    assert quoting(backslashes=False)("\\'") == b"'\\'''"


def test_no_query_is_left_in_another_dialect() -> None:
    queries = MariadbQueries()
    for name in queries.names():
        for word in ("ON CONFLICT", "excluded.", "RETURNING", "FOR UPDATE OF", "::"):
            assert word not in queries[name], (name, word)


def test_a_large_send_goes_in_pieces(broker: Broker) -> None:
    """More than the server takes at once."""
    broker.configure("q", max_payload_bytes=4 << 20)
    payloads = [bytes([65 + n]) * (3 << 20) for n in range(8)]
    broker.send_many("q", payloads)
    assert drain(broker) == payloads


def test_what_the_server_would_not_take_at_once_is_refused_alone(broker: Broker) -> None:
    broker.configure("q", max_payload_bytes=64 << 20)
    with pytest.raises(PayloadTooLarge, match="max_allowed_packet"):
        broker.send("q", b"x" * (17 << 20))
    broker.send("q", "small")
    assert drain(broker) == ["small"]


def test_everybody_goes_by_the_databases_clock(database: MariadbDatabase) -> None:
    """The server of these tests lives in another time zone."""
    with rowq.connect(database.url, maintenance=False) as broker:
        clock = broker._engine.clock
        assert isinstance(clock, SharedClock)
        with dialect_of(broker).asking() as session:
            (seconds,) = session.rows("read_clock")[0]
        assert abs(clock.now() / 1000 - seconds) < 5
        assert abs(rowq.clock.SystemClock().now() / 1000 - seconds) < 5


def test_a_process_without_the_maintenance_duty_learns_the_time_all_the_same(broker: Broker) -> None:
    dialect = dialect_of(broker)
    clock = dialect.clock()
    clock.learn(lambda: 0.0)
    clock.learned_at = -1_000.0
    broker.send("q", "x")
    assert clock.now() > 1_000_000_000_000


def test_seqs_are_drawn_without_waiting_for_a_commit(database: MariadbDatabase, broker: Broker) -> None:
    with rowq.connect(database.url, maintenance=False) as other, dialect_of(broker).writing(durable=True) as session:
        first = session.draw_seqs(3)
        assert rowq.ids.origin_of(other.send("q", "x")).seq == first + 3  # type: ignore[union-attr]


class TestAnApplicationsTransaction:
    """REPEATABLE READ is what MariaDB gives to whoever asks for nothing else."""

    def test_others_send_while_it_is_open(self, broker: Broker, app: Any) -> None:
        broker.send("q", 0)
        drain(broker)
        broker.within(app).send_many("q", [1, 2, 3])
        background = Background(lambda: broker.send_many("q", [4, 5]))
        background.result()
        assert depths(broker) == {"ready": 2}
        app.commit()
        assert sorted(drain(broker)) == [1, 2, 3, 4, 5]

    def test_others_receive_and_ack_while_it_is_open(self, broker: Broker, app: Any) -> None:
        broker.send_many("q", range(4))
        mine, *others = broker.receive("q", max=4)
        broker.within(app).ack(mine)
        Background(lambda: broker.ack_many(others)).result()
        app.commit()
        assert depths(broker) == {}

    def test_a_group_goes_on_with_what_was_sent_since_it_began(self, broker: Broker, app: Any) -> None:
        broker.send("q", "first", group="g")
        delivery = take(broker)
        run(app, "SELECT COUNT(*) FROM rowq_messages").fetchall()  # what it sees is as of now
        broker.send("q", "second", group="g")
        broker.within(app).ack(delivery)
        app.commit()
        assert drain(broker) == ["second"]

    def test_it_acks_what_was_sent_since_it_began(self, broker: Broker, app: Any) -> None:
        broker.configure("q", keep="body")
        run(app, "SELECT COUNT(*) FROM rowq_messages").fetchall()
        broker.send("q", "x", key="k", ttl=100)
        broker.within(app).ack(take(broker))
        app.commit()
        assert depths(broker) == {"finished": 1}

    def test_a_key_is_free_when_its_message_was_leased_since_it_began(self, broker: Broker, app: Any) -> None:
        broker.send("q", "old", key="k")
        run(app, "SELECT COUNT(*) FROM rowq_messages").fetchall()
        delivery = take(broker)
        broker.within(app).send("q", "new", key="k")
        app.commit()
        broker.ack(delivery)
        assert drain(broker) == ["new"]

    def test_an_id_that_was_taken_since_it_began_is_taken(self, broker: Broker, app: Any) -> None:
        run(app, "SELECT COUNT(*) FROM rowq_own_ids").fetchall()
        broker.send("q", "x", id="taken")
        with pytest.raises(rowq.IdTaken):
            broker.within(app).send("q", "y", id="taken")

    @pytest.mark.parametrize("mode", ["", "ANSI,NO_BACKSLASH_ESCAPES", "TRADITIONAL", "PIPES_AS_CONCAT"])
    def test_its_sql_mode_changes_nothing(self, broker: Broker, app: Any, mode: str) -> None:
        run(app, f"SET SESSION sql_mode = '{mode}'")
        broker.within(app).send_many("q", [*NASTY, b"\\'\x00"], key=None)
        app.commit()
        assert drain(broker) == [*NASTY, b"\\'\x00"]
        assert run(app, "SELECT @@sql_mode, @@sql_safe_updates").fetchone()[1] == 0

    def test_safe_updates_stay_as_they_were(self, broker: Broker, app: Any) -> None:
        run(app, "SET SESSION sql_safe_updates = 1")
        broker.within(app).send("q", "x")
        assert run(app, "SELECT @@sql_safe_updates").fetchone() == (1,)

    @pytest.mark.parametrize("goes_wrong", [True, False])
    def test_a_transaction_that_is_gone_is_an_error_and_safe_updates_stay_as_they_were(
        self, broker: Broker, app: Any, goes_wrong: bool
    ) -> None:
        """A deadlock undoes it as a whole, and what was written before along with it."""

        def lose() -> None:
            with dialect_of(broker).joining(app) as session:
                session.rows("read_identity")
                app.rollback()
                if goes_wrong:
                    raise StoreBusy("a deadlock")

        with pytest.raises(rowq.StoreError, match="deadlock" if goes_wrong else "SAVEPOINT"):
            lose()
        assert run(app, "SELECT @@sql_safe_updates").fetchone() == (0,)

    def test_what_goes_wrong_is_undone_and_the_rest_stays(self, broker: Broker, app: Any) -> None:
        broker.within(app).send("q", "kept")
        with pytest.raises(PayloadTooLarge):
            broker.within(app).send_many("q", ["x", b"y" * (1 << 20)])
        app.commit()
        assert drain(broker) == ["kept"]

    def test_a_connection_that_commits_by_itself_is_refused_outside_of_a_transaction(self, broker: Broker, app: Any) -> None:
        app.autocommit(True)
        with pytest.raises(InvalidArgument, match="begin"):
            broker.within(app).send("q", "x")
        app.begin()
        broker.within(app).send("q", "y")
        app.rollback()
        assert depths(broker) == {}

    def test_a_connection_that_cannot_write_every_text_is_refused(self, broker: Broker, app: Any) -> None:
        app.set_character_set("latin1")
        with pytest.raises(InvalidArgument, match="utf8mb4"):
            broker.within(app).send("q", "x")

    def test_a_connection_without_our_tables_is_refused(self, broker: Broker, app: Any) -> None:
        run(app, "USE information_schema")
        with pytest.raises(InvalidArgument, match="another database"):
            broker.within(app).send("q", "x")


class TestLocks:
    def test_rows_that_others_have_locked_are_passed_over(self, broker: Broker, app: Any) -> None:
        broker.send_many("q", range(5))
        run(app, "SELECT * FROM rowq_ready WHERE queue = 'q' AND ranking = 0 AND position = 2 AND seq = 2 FOR UPDATE").fetchall()
        assert [delivery.payload for delivery in broker.receive("q", max=5)] == [0, 2, 3, 4]

    def test_a_key_that_somebody_holds_for_long_stops_nobody_else(self, broker: Broker, app: Any) -> None:
        broker.send("q", "x", key="held")
        broker.within(app).send("q", "y", key="held")
        waiting = Background(lambda: broker.send("q", "z", key="held"))
        eventually(lambda: _waits_for_a_lock(app))
        broker.send("q", "free", key="free")
        app.commit()
        waiting.result()
        assert sorted(drain(broker)) == ["free", "z"]

    def test_a_lock_that_never_comes_is_an_error_that_leaves_nothing_behind(self, database: MariadbDatabase, app: Any) -> None:
        with rowq.connect(database.url, maintenance=False, timeout=1) as broker:
            broker.send("q", "x", key="held")
            run(app, "SELECT * FROM rowq_waiting_keys FOR UPDATE").fetchall()
            with pytest.raises(StoreBusy, match="long transaction"):
                broker.send_many("q", [Draft("before"), Draft("y", key="held")])
            assert depths(broker) == {"ready": 1}
            app.rollback()
            broker.send("q", "y", key="held")
            assert drain(broker) == ["y"]

    def test_a_deadlock_is_tried_again(self, broker: Broker, app: Any) -> None:
        """Whoever has written less is rolled back: that is us."""
        broker.send("q", 1, key="a")
        broker.send("q", 2, key="b")
        run(app, "CREATE TEMPORARY TABLE much AS SELECT 1 FROM seq_1_to_1000")
        run(app, "UPDATE rowq_waiting_keys SET seq = seq WHERE message_key = 'b'")
        run(app, "INSERT INTO rowq_audit (at, queue, event) SELECT 0, 'q', 'x' FROM seq_1_to_500")
        sending = Background(lambda: broker.send_many("q", [Draft(3, key="a"), Draft(4, key="b")]))
        eventually(lambda: _waits_for_a_lock(app))
        run(app, "SELECT * FROM rowq_waiting_keys WHERE message_key = 'a' FOR UPDATE").fetchall()
        app.rollback()
        sending.result()
        assert drain(broker) == [3, 4]


def _waits_for_a_lock(connection: Any) -> int:
    """Whether anybody waits; InnoDB tells what was before, unless nobody has asked for a tenth of a second."""
    threading.Event().wait(0.15)
    with shared_connection() as other:
        database = connection.db.decode()
        rows = run(
            other,
            "SELECT COUNT(*) FROM information_schema.innodb_trx t JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id "
            f"WHERE t.trx_state = 'LOCK WAIT' AND p.db = '{database}'",
        )
        return int(rows.fetchone()[0])


def shared_connection() -> Any:
    from tests.support.servers.mariadb import connected

    return connected(shared_mariadb().url(""))


BARE = f"rowq_bare_{os.getpid()}"
"""A database for this worker alone: the server is everybody's."""


class TestMigrations:
    @pytest.fixture
    def bare(self) -> Iterator[str]:
        server = shared_mariadb()
        name = BARE
        server.drop_database(name)
        server.create_database(name)
        yield server.url(name)
        server.drop_database(name)

    def test_those_who_start_together_make_the_tables_once(self, bare: str) -> None:
        migrating = [Background(lambda: rowq.migrate(bare)) for _ in range(4)]
        assert sorted(one.result(within=30) for one in migrating) == [(0, migrations.VERSION)] + [(migrations.VERSION,) * 2] * 3

    def test_a_migration_that_was_cut_off_is_run_again(self, bare: str, monkeypatch: pytest.MonkeyPatch) -> None:
        whole = migrations._statements
        monkeypatch.setattr(migrations, "_statements", lambda script: [*whole(script)[:9], "CREATE TABLE broken ("])
        with pytest.raises(rowq.StoreError):
            rowq.migrate(bare)
        with pytest.raises(SchemaMismatch):
            rowq.connect(bare, migrate=False)
        monkeypatch.undo()
        assert rowq.migrate(bare) == (0, migrations.VERSION)
        with rowq.connect(bare, maintenance=False) as broker:
            broker.send("q", "x")
            assert drain(broker) == ["x"]

    def test_a_newer_version_is_refused(self, bare: str) -> None:
        rowq.migrate(bare)
        with shared_connection() as connection:
            run(connection, f"INSERT INTO {BARE}.rowq_migrations VALUES ({migrations.VERSION + 1}, 0)")
        with pytest.raises(SchemaMismatch, match="upgrade rowq"):
            rowq.connect(bare)

    def test_texts_are_utf8mb4_and_compare_by_byte_whatever_the_server_prefers(self, bare: str) -> None:
        rowq.migrate(bare)
        with shared_connection() as connection:
            assert run(connection, "SELECT @@character_set_server").fetchone() == ("latin1",)
            rows = run(
                connection,
                "SELECT DISTINCT collation_name FROM information_schema.columns "
                f"WHERE table_schema = '{BARE}' AND collation_name IS NOT NULL ORDER BY 1",
            ).fetchall()
        assert rows == (("ascii_bin",), ("utf8mb4_nopad_bin",))


def test_a_walk_that_is_left_early_harms_nobody(broker: Broker) -> None:
    broker.send_many("q", [b"x" * 50_000 for _ in range(100)])
    for _ in range(3):
        walk = broker.walk("q")
        assert next(iter(walk)).queue == "q"
        walk.close()  # type: ignore[attr-defined]
        assert broker.stats("q").ready == 100


def test_a_question_that_finds_nothing_keeps_its_connection(broker: Broker) -> None:
    readers = dialect_of(broker)._readers
    before = list(readers._idle)
    with pytest.raises(rowq.MessageNotFound):
        broker.get("nothing")
    assert list(readers._idle) == before


def test_an_interrupt_between_question_and_answer_ends_the_connection(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the server still says would be taken for the answer to the next question."""
    broker.send("q", "x")
    dialect = dialect_of(broker)

    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("rowq.store.mariadb.driver._read", interrupted)
    with pytest.raises(KeyboardInterrupt):
        broker.stats("q")
    monkeypatch.undo()
    assert dialect._readers._idle == []
    assert broker.stats("q").ready == 1


def test_it_is_the_driver_that_is_asked_for(broker: Broker) -> None:
    with pytest.raises(InvalidArgument, match="PyMySQL or mysqlclient"):
        broker.within(object()).send("q", "x")
    assert isinstance(pymysql.Connection, type)
