"""The docstrings of the verbs with many options list all of them, with their defaults."""

from __future__ import annotations

import inspect
import re

import pytest

from rowq import Broker, Draft
from rowq.worker.plan import ConsumerOptions, to_plan

DRAFT = {name: parameter.default for name, parameter in inspect.signature(Draft).parameters.items() if name != "payload"}
RECEIVE = {name: value.default for name, value in inspect.signature(Broker.receive).parameters.items() if name not in ("self", "queue")}
_PLAN = to_plan("q", print, {})
CONSUMER = {name: getattr(_PLAN, "retry_ms" if name == "retry" else name) for name in ConsumerOptions.__annotations__} | {
    "batch_size": None
}


@pytest.mark.parametrize(("verb", "options"), [(Broker.send, DRAFT), (Broker.receive, RECEIVE), (Broker.consumer, CONSUMER)])
def test_every_option_is_listed_with_its_default(verb: object, options: dict[str, object]) -> None:
    listed = dict(re.findall(r"^\s+(\w+)=(\S+):", inspect.getdoc(verb) or "", re.MULTILINE))
    shown = {
        name: f'"{default}"' if isinstance(default, str) else f"{default:g}" if isinstance(default, float) else str(default)
        for name, default in options.items()
    }
    assert listed == shown
