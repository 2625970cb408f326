"""Connections are cut at random, again and again, under a running load: nobody's work is lost, and most never hear of it."""

from __future__ import annotations

import threading
from contextlib import suppress

import pymysql
import pytest

import rowq
from tests.disasters.load import Load
from tests.rivals.process import Start
from tests.support.asking import ask

EVERY = 0.05
_CUT_ONE_OF_POSTGRESQL = """
SELECT pg_terminate_backend(pid) FROM (
    SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'rowq' ORDER BY RANDOM() LIMIT 1
) AS chosen
"""
_CHOOSE_ONE_OF_MARIADB = (
    "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID() ORDER BY RAND() LIMIT 1"
)


def cut_one(url: str) -> None:
    if url.startswith("postgresql://"):
        ask(url, _CUT_ONE_OF_POSTGRESQL)
    for (id,) in ask(url, _CHOOSE_ONE_OF_MARIADB) if url.startswith("mariadb://") else []:
        with suppress(pymysql.err.OperationalError):  # it has just ended by itself
            ask(url, f"KILL {id}")


@pytest.mark.parametrize("cuts", [15, pytest.param(80, marks=pytest.mark.prove("80 cuts; 15 stand for them"))])
@pytest.mark.parametrize(("kind", "told"), [("postgresql", set()), ("mariadb", {rowq.OutcomeUnknown.code})])
def test_a_load_survives_connections_that_are_cut(start: Start, url: str, told: set[str], cuts: int) -> None:
    """PostgreSQL can be asked what became of a commit whose answer was lost; MariaDB cannot."""
    load = Load(start, url, processes=1 if cuts == 15 else 2)
    load.await_progress()
    pause = threading.Event()
    for _ in range(cuts):
        cut_one(url)
        pause.wait(EVERY)
    load.await_progress()
    load.finish()
    load.check()
    assert load.failures().keys() <= told
