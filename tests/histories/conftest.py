"""Histories go by a clock that only they move. Looks that took long by the true one would be spared a while, and come late by theirs."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.histories.world")


@pytest.fixture(autouse=True)
def nothing_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowq.store.due_time._CHEAP_MS", 1 << 62)
    monkeypatch.setattr("rowq.store.head_hint._CHEAP", float("inf"))
