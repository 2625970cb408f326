"""To connect is tried again while its connection breaks, until the timeout."""

from __future__ import annotations

from typing import Any

import pytest

import rowq
from rowq import StoreUnavailable
from rowq.store import migrations
from rowq.store.retry import ConnectionLost
from tests.support.database import Database


def break_migrations(monkeypatch: pytest.MonkeyPatch, times: int) -> list[int]:
    """The connection breaks so often while the tables are looked at; gives the tries."""
    migrate, tries = migrations.migrate, list[int]()

    def breaking(*given: Any) -> Any:
        tries.append(1)
        if len(tries) <= times:
            raise ConnectionLost("it was cut")
        return migrate(*given)

    monkeypatch.setattr(migrations, "migrate", breaking)
    return tries


def test_a_connection_that_breaks_is_opened_again(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = break_migrations(monkeypatch, 2)
    with rowq.connect(database.url, maintenance=False) as broker:
        assert broker.send("q", 1)
    assert len(tries) == 3


def test_one_that_always_breaks_is_told(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    break_migrations(monkeypatch, 1_000_000)
    with pytest.raises(StoreUnavailable, match="it was cut"):
        rowq.connect(database.url, maintenance=False, timeout=0.3)
