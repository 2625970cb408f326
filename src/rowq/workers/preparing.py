"""A queue that is not there yet is made as producers and consumers promise it. One that is there belongs to whoever set it up."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from rowq.engine import Engine
from rowq.errors import Forbidden, QueueNotFound
from rowq.steps import Steps

SETTINGS: dict[str, Any] = {"max_attempts": 0, "order": "ready", "on_exhausted": "fail", "keep": "outcome"}
"""Tried without limit, behind what waits already, so that one which always fails stops no other; what became of it stays readable."""


def prepare_queue(engine: Engine, queue: str, **more: Any) -> Steps[None]:
    """A key that may not configure leaves the queue to the defaults."""
    with suppress(Forbidden):
        try:
            yield engine.verbs.look(engine.insights.settings, queue)
        except QueueNotFound:
            yield engine.verbs.configure(queue, {**SETTINGS, **more})
