"""Many who wait for nothing cost next to nothing: one look a second for a queue and process, however many they are."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rowq
from rowq import Broker
from rowq.engine import waiting as waiting_room
from tests.support.background import Background
from tests.support.patience import eventually


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with rowq.connect(f"sqlite:///{tmp_path / 'jobs.db'}", maintenance=False) as broker:
        yield broker


@pytest.fixture
def looks(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One entry for each transaction of the writer."""
    counted: list[str] = []
    writing = broker._engine.dialect.writing

    def count(**options: Any) -> Any:
        counted.append(threading.current_thread().name)
        return writing(**options)

    monkeypatch.setattr(broker._engine.dialect, "writing", count)
    return counted


def test_forty_who_wait_look_about_once_a_second(broker: Broker, looks: list[str]) -> None:
    waiting = [Background(lambda: broker.receive("q", wait=600)) for _ in range(40)]
    eventually(lambda: broker._engine._room.count() == 40)
    settled, began = len(looks), time.monotonic()
    threading.Event().wait(2.5)
    assert len(looks) - settled <= time.monotonic() - began + 1
    broker.send_many("q", range(40))
    assert sorted(call.result()[0].payload for call in waiting) == list(range(40))


def test_a_message_sent_to_many_who_wait_is_looked_for_by_few(broker: Broker, looks: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting_room, "SAFETY", 3600.0)
    waiting = [Background(lambda: broker.receive("q", wait=600)) for _ in range(40)]
    eventually(lambda: broker._engine._room.count() == 40)
    settled = len(looks)
    broker.send("q", "x")
    eventually(lambda: any(not call.is_running for call in waiting))
    assert len(looks) - settled <= 5
    broker.send_many("q", range(39))
    assert len([call.result() for call in waiting]) == 40
