"""Whoever looks into the tables finds what is wrong there, on every database: each fault is made by hand, and must be named."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import rowq
from tests.support.asking import ask
from tests.support.database import KINDS, new_database
from tests.support.tables import _FAULTS, faults_of

PLAIN, KEYED, HEAD, FOLLOWER, SHORT, OWN = range(1, 7)
"""The seqs of the messages that `furnish` sends."""

DAMAGE = {
    "in two states": [f"INSERT INTO rowq_scheduled (seq, queue, due, attempts) VALUES ({PLAIN}, 'q', 0, 0)"],
    "a body in no state": [f"DELETE FROM rowq_ready WHERE seq = {PLAIN}"],
    "a state without a body": [f"DELETE FROM rowq_messages WHERE seq = {PLAIN}"],
    "a state of another queue": [f"UPDATE rowq_ready SET queue = 'other' WHERE seq = {PLAIN}"],
    "a queue that is not listed": ["DELETE FROM rowq_queues WHERE name = 'q'"],
    "a seq that was never drawn": [
        f"UPDATE rowq_messages SET seq = 9000 WHERE seq = {PLAIN}",
        f"UPDATE rowq_ready SET seq = 9000, position = 9000 WHERE seq = {PLAIN}",
    ],
    "ready out of its rank": [f"UPDATE rowq_ready SET ranking = 7 WHERE seq = {PLAIN}"],
    "moved, and not written down": [f"UPDATE rowq_ready SET position = 500 WHERE seq = {PLAIN}"],
    "a move of nobody": [f"INSERT INTO rowq_moved (seq, position) VALUES ({PLAIN}, 500)"],
    "two waiting under one key": [f"UPDATE rowq_messages SET message_key = 'k' WHERE seq = {PLAIN}"],
    "waiting under a key that does not name it": [f"UPDATE rowq_waiting_keys SET seq = 0 WHERE seq = {KEYED}"],
    "a key of nobody": [f"INSERT INTO rowq_waiting_keys (queue, message_key, seq) VALUES ('q', 'x', {PLAIN})"],
    "blocked in no group": [f"UPDATE rowq_messages SET group_key = 'other' WHERE seq = {FOLLOWER}"],
    "a group with two heads": [f"UPDATE rowq_messages SET group_key = 'g' WHERE seq = {PLAIN}"],
    "a head that is not written down": [f"UPDATE rowq_group_heads SET head = {PLAIN} WHERE head = {HEAD}"],
    "a group that nobody leads": [f"UPDATE rowq_group_heads SET head = {FOLLOWER} WHERE head = {HEAD}"],
    "waiting beyond its expiry": [f"DELETE FROM rowq_expiring WHERE seq = {SHORT}"],
    "an expiry of nobody": ["INSERT INTO rowq_expiring (seq, queue, ends_at) VALUES (9000, 'q', 0)"],
    "an own id of nobody": [f"UPDATE rowq_own_ids SET seq = 9000 WHERE seq = {OWN}"],
    "held by two": [f"INSERT INTO rowq_audit (at, queue, seq, event) VALUES (0, 'q', {PLAIN}, 'delivered')"] * 2,
}


def furnish(url: str) -> None:
    with rowq.connect(url, maintenance=False) as broker:
        broker.send("q", "plain")
        broker.send("q", "keyed", key="k", delay=600)
        broker.send_many("q", ["head", "follower"], group="g")
        broker.send("q", "short", ttl=600)
        broker.send("q", "own", id="order-7")


def harm(url: str, statements: list[str]) -> None:
    if url.startswith("sqlite:"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection, connection:
            for statement in statements:
                connection.execute(statement)
    else:
        ask(url, *(["SET search_path TO rowq"] if url.startswith("postgresql:") else []), *statements)


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    url = new_database(request.param, tmp_path).url
    furnish(url)
    return url


def test_tables_that_only_the_verbs_have_touched_are_sound(url: str) -> None:
    assert faults_of(url) == {}


@pytest.mark.parametrize("fault", DAMAGE)
def test_a_fault_is_found(url: str, fault: str) -> None:
    harm(url, DAMAGE[fault])
    assert fault in faults_of(url)


def test_every_fault_has_been_made_once() -> None:
    assert DAMAGE.keys() - {"held by two"} == _FAULTS.keys()
