"""What the pages say about databases is so: their lists are complete, and the rights that they grant are enough."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

import rowq
from rowq.connect import _LIBPQ
from rowq.spark.tables import open_tabular
from rowq.store.mariadb.dialect import Mariadb
from rowq.store.notify.redis_connection import _PARAMETERS as REDIS_PARAMETERS
from tests.docs.page import page
from tests.support.servers import fresh, shared_mariadb, shared_postgresql
from tests.support.servers.mariadb import connected

GUIDE = page("docs/guide/databases.md")
URLS = page("docs/reference/urls.md")
POSTGRESQL_SCRIPT, MARIADB_SCRIPT = re.findall(r"```\n(CREATE .*?)```", GUIDE.section("Rights"), re.DOTALL)


def listed(title: str) -> list[str]:
    return [name for row in URLS.table(title) for name in re.findall(r"`(\w+)`", row[0])]


@pytest.mark.parametrize(
    ("title", "known"),
    [
        ("parameter of SQLite", ["durability", "timeout"]),
        ("parameter of PostgreSQL", ["schema", "durability", "timeout", *_LIBPQ]),
        ("parameter of MariaDB", ["timeout", *Mariadb.parameters]),
        ("parameter of a server", ["timeout"]),
        ("parameter of Redis", list(REDIS_PARAMETERS)),
    ],
)
def test_every_parameter_of_a_url_is_listed(title: str, known: list[str]) -> None:
    assert sorted(listed(title)) == sorted(known)


def test_all_that_the_doctor_looks_at_is_listed() -> None:
    with rowq.connect(fresh(shared_postgresql()), maintenance=False) as broker:
        assert [finding.check for finding in broker.doctor()] == [row[0] for row in GUIDE.table("on PostgreSQL")]


def test_the_rights_on_postgresql_are_enough() -> None:
    url = fresh(shared_postgresql())
    with psycopg.connect(url, autocommit=True) as owner, role(owner) as name:
        script = POSTGRESQL_SCRIPT.replace("shop", name)
        if owner.info.server_version < 170_000:
            script = re.sub(r"GRANT MAINTAIN.*\n", "", script)
        owner.execute(script.encode())
        live(dressed(url, name))
        with rowq.connect(dressed(url, name), maintenance=False) as broker:
            ills = {finding.check for finding in broker.doctor() if not finding.ok}
            assert not ills & {"rights", "vacuum"} or owner.info.server_version < 170_000
        with psycopg.connect(dressed(url, name)) as clerk, pytest.raises(psycopg.errors.InsufficientPrivilege):
            clerk.execute("DROP TABLE rowq.rowq_ready")


@contextmanager
def role(owner: psycopg.Connection) -> Iterator[str]:
    """A name that the script gives to a user, who is gone in the end."""
    name = f"shop_{secrets.token_hex(4)}"
    yield name
    owner.execute(f"DROP OWNED BY {name}".encode())
    owner.execute(f"DROP ROLE {name}".encode())


def test_the_rights_on_mariadb_are_enough() -> None:
    url = fresh(shared_mariadb())
    name = f"shop_{secrets.token_hex(4)}"
    script = MARIADB_SCRIPT.replace("jobs", urlsplit(url).path[1:]).replace("'shop'", f"'{name}'")
    with connected(url) as owner, owner.cursor() as cursor:
        for statement in script.strip().removesuffix(";").split(";"):
            cursor.execute(statement)
        try:
            live(dressed(url, name))
        finally:
            cursor.execute(f"DROP USER '{name}'@'%'")


def dressed(url: str, user: str) -> str:
    """The same database as another user."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"{user}:secret@{parts.netloc.rpartition('@')[2]}"))


def live(url: str) -> None:
    """A bit of everything that a queue may do."""
    with rowq.connect(url) as broker:
        broker.configure("jobs", keep="body", throughput_limit=1_000, max_depth=100)
        broker.send_many("jobs", [1, 2], group="orders", ttl=60, id=None)
        broker.send("jobs", 3, key="one", delay=60, keys_if_undelivered=["lost"])
        broker.send("jobs", 4, id="mine", priority=5)
        first, second = broker.receive("jobs", max=2)
        broker.ack(first)
        broker.reject(second, reason="on purpose")
        assert broker.redrive("jobs") == 1
        assert broker.get("mine").state == "finished"
        broker.create_key("shop", scopes=["send"])
        broker.revoke_key("shop")
        broker.pause("jobs")
        broker.resume("jobs")
        broker.maintain()
        broker._engine.dialect.tidy(thoroughly=True)
        assert len(list(broker.walk())) == 4
        assert broker.audit("mine")
        broker.purge("jobs")
        broker.delete_queue("jobs")
    with open_tabular(url) as tabular:
        assert tabular.settled("audit") == tabular.last_line("audit")
