"""What only PostgreSQL has: schemas, durability by the transaction, settings of a connection, codes of errors, a duty for one process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

import rowq
from rowq.store.postgresql import notifier
from rowq.store.postgresql.errors import is_worth_another_try, refusal, translate
from tests.rivals.conftest import with_option
from tests.support.asking import ask
from tests.support.crowd import together
from tests.support.life import depths, take
from tests.support.patience import eventually
from tests.support.servers import fresh, shared_postgresql
from tests.support.tables import faults_of


@pytest.fixture
def url() -> str:
    return fresh(shared_postgresql())


@pytest.fixture
def broker(url: str) -> Iterator[rowq.Broker]:
    with rowq.connect(url, maintenance=False) as broker:
        yield broker


def test_a_schema_of_its_own_is_a_queue_of_its_own(url: str, broker: rowq.Broker) -> None:
    with rowq.connect(with_option(url, "schema=Other_1"), maintenance=False) as other, closing(psycopg.connect(url)) as own:
        broker.send("q", "here")
        other.within(own).send("q", "there")
        own.commit()
        assert take(broker).payload == "here"
        assert take(other).payload == "there"
        assert broker.stats("q").depth == other.stats("q").depth == 1


@pytest.mark.parametrize("name", ["1st", "a-b", 'a"b', "", "x" * 64, "a;b"])
def test_a_schema_that_is_no_name_is_refused(url: str, name: str) -> None:
    with pytest.raises(rowq.InvalidArgument, match="schema"):
        rowq.connect(with_option(url, f"schema={name}"))


def test_the_short_scheme_is_known(url: str) -> None:
    rowq.connect(url.replace("postgresql://", "postgres://"), maintenance=False).close()


@pytest.mark.parametrize(("durability", "sent", "acked"), [("full", "on", "on"), ("send", "on", "off"), ("normal", "off", "off")], ids=str)
def test_a_commit_waits_for_the_disk_where_the_url_says_so(url: str, durability: str, sent: str, acked: str) -> None:
    ask(
        url,
        "SET search_path TO rowq",
        "CREATE TABLE public.seen (event TEXT, synchronous TEXT)",
        """CREATE FUNCTION public.see() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN INSERT INTO public.seen VALUES (TG_OP, current_setting('synchronous_commit')); RETURN NULL; END $$""",
        "CREATE TRIGGER see AFTER INSERT OR DELETE ON rowq_messages FOR EACH STATEMENT EXECUTE FUNCTION public.see()",
    )
    try:
        with rowq.connect(with_option(url, f"durability={durability}"), maintenance=False) as broker:
            for _ in range(3):
                broker.send("q", 1)
                broker.ack(take(broker))
        assert set(ask(url, "SELECT event, synchronous FROM public.seen")) == {("INSERT", sent), ("DELETE", acked)}
    finally:
        ask(url, "DROP FUNCTION public.see() CASCADE")


def test_many_callers_share_a_few_connections(url: str, broker: rowq.Broker) -> None:
    most = [0]
    is_over = threading.Event()

    def count() -> None:
        while not is_over.is_set():
            ((now,),) = ask(url, "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'rowq'")
            most[0] = max(most[0], now)

    def work() -> None:
        for number in range(10):
            broker.send("q", number)
            for delivery in broker.receive("q", wait=0.2):
                broker.ack(delivery)

    counting = threading.Thread(target=count)
    counting.start()
    together(*[work] * 40, within=60)
    is_over.set()
    counting.join()
    assert 1 <= most[0] <= 16
    assert faults_of(url) == {}


def test_the_applications_connection_is_left_as_it_was(url: str, broker: rowq.Broker) -> None:
    settings = (
        "SELECT name, setting FROM pg_settings WHERE name IN ('search_path', 'lock_timeout', 'jit', 'synchronous_commit', 'enable_sort')"
    )
    with closing(psycopg.connect(url)) as own:
        before = own.execute(settings).fetchall()
        broker.within(own).send("q", 1, key="k", group="g")
        assert own.execute(settings).fetchall() == before
        own.commit()
        assert own.execute("SELECT 1").fetchone() == (1,)
        assert own.adapters.get_dumper(int, psycopg.adapt.PyFormat.AUTO) is psycopg.adapters.get_dumper(int, psycopg.adapt.PyFormat.AUTO)


def test_a_savepoint_of_the_application_undoes_only_what_came_after_it(url: str, broker: rowq.Broker) -> None:
    with closing(psycopg.connect(url)) as own:
        broker.within(own).send("q", "kept")
        with own.transaction(force_rollback=True):
            broker.within(own).send("q", "undone", key="k", group="g")
        own.commit()
    assert [message.payload for message in broker.walk("q")] == ["kept"]
    assert faults_of(url) == {}


def test_an_application_may_use_a_stricter_isolation(url: str, broker: rowq.Broker) -> None:
    with closing(psycopg.connect(url)) as own:
        own.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
        broker.within(own).send_many("q", range(5), key="k", group="g")
        own.commit()
        broker.within(own).ack(take(broker))
        own.commit()
    assert broker.stats("q").depth == 0
    assert faults_of(url) == {}


CODES = {
    "40P01": "store_busy",
    "40001": "store_busy",
    "55P03": "store_busy",
    "57014": "store_busy",
    "53300": "store_busy",
    "53100": "store_full",
    "25006": "store_read_only",
    "42501": "store_unavailable",
    "42P01": "schema_mismatch",
    "3F000": "schema_mismatch",
    "57P01": "store_busy",
    "08006": "store_busy",
    "25P03": "store_busy",
    "22012": "store_error",
}


@pytest.mark.parametrize("code", CODES)
def test_a_code_of_postgresql_is_an_error_of_ours(code: str) -> None:
    error = translate(psycopg.errors.lookup(code)("as if PostgreSQL had said so"), "postgresql://host/shop")
    assert error.code == CODES[code]
    assert "postgresql://host/shop" in str(error)


WORDS: dict[str, tuple[str, bool]] = {
    'FATAL:  password authentication failed for user "app"': ("store_unavailable", False),
    "fe_sendauth: no password supplied": ("store_unavailable", False),
    'FATAL:  role "app" does not exist': ("store_unavailable", False),
    'FATAL:  database "role" does not exist': ("store_unavailable", False),
    'FATAL:  no pg_hba.conf entry for host "1.2.3.4"': ("store_unavailable", False),
    "FATAL:  sorry, too many clients already": ("store_busy", True),
    "FATAL:  remaining connection slots are reserved for roles with the SUPERUSER attribute": ("store_busy", True),
    'FATAL:  too many connections for role "app"': ("store_busy", True),
    "FATAL:  the database system is starting up": ("store_unavailable", True),
    "FATAL:  the database system is shutting down": ("store_unavailable", True),
    "connection refused": ("store_unavailable", True),
}


@pytest.mark.parametrize("words", WORDS)
def test_a_refused_connection_says_why_and_is_tried_again_where_that_may_help(words: str) -> None:
    error = psycopg.OperationalError(f"connection failed: {words}")
    assert (refusal(error, "here").code, is_worth_another_try(error)) == WORDS[words]


def test_a_broker_that_has_waited_is_closed_without_waiting_again(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The listener looks up by itself once an hour here: it ends since the close tells it to."""
    monkeypatch.setattr(notifier, "_LOOK_UP_EVERY", 3600.0)
    with rowq.connect(url, maintenance=False) as broker:
        own: Any = broker._engine._notifier
        broker.receive("q", wait=0.1)
        eventually(own.is_heard)
    eventually(lambda: not own._listener.is_alive())


def test_one_process_of_several_keeps_everything_up_and_hands_over_when_it_ends(url: str) -> None:
    def holder() -> Any:
        rows = ask(url, "SELECT holder FROM rowq.rowq_duties WHERE held_until > EXTRACT(EPOCH FROM CLOCK_TIMESTAMP()) * 1000")
        return rows[0][0] if rows else None

    brokers = [rowq.connect(url) for _ in range(2)]
    try:
        first = eventually(holder)
        names = [broker._engine.maintenance._me for broker in brokers]
        assert first in names
        brokers.pop(names.index(first)).close()
        names.remove(first)
        assert eventually(lambda: (found := holder()) and found != first and found, 5) == names[0]
    finally:
        for broker in brokers:
            broker.close()


def test_maintenance_takes_up_what_is_due_by_itself(url: str) -> None:
    with rowq.connect(url) as broker:
        broker.send("q", "leased")
        take(broker, lease=0.2)
        broker.send("q", "due", delay=0.2)
        broker.send("q", "short", ttl=0.2)
        eventually(lambda: depths(broker) == {"ready": 2, "dead": 1}, 8)
