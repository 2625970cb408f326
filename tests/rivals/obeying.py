"""A process with a broker that does what it is told: ["receive", ["q"], {"wait": 5}] on its input, the answer in its log.

    python -m tests.rivals.obeying URL [alone] [listening]

It says "waiting" whenever a consumer has gone to its waiting room. Alone: it does nothing that it is not told to. Listening: a consumer
that waits does not look once a second by itself, so that it finds only what it hears of.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

import msgspec

import rowq
from rowq.engine import waiting
from tests.rivals.process import say
from tests.support.patience import eventually


def obey(broker: rowq.Broker, verb: str, arguments: list[Any], options: dict[str, Any]) -> None:
    if options.get("wait"):
        threading.Thread(target=announce, args=(broker,), daemon=True).start()
    try:
        answer = getattr(broker, verb)(*arguments, **options)
    except rowq.RowqError as error:
        answer = error.code
    say("answer", answer)


def announce(broker: rowq.Broker) -> None:
    eventually(broker._engine._room.count, 60)
    say("waiting")


def main(url: str, *how: str) -> None:
    if "listening" in how:
        waiting.SAFETY = float("inf")
    with rowq.connect(url, maintenance="alone" not in how) as broker:
        say("ready")
        for line in sys.stdin:
            obey(broker, *msgspec.json.decode(line, type=tuple[str, list[Any], dict[str, Any]]))


if __name__ == "__main__":
    main(*sys.argv[1:])
