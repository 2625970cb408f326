"""A process that copies, and says whenever it has come a step further: for those who kill it, or weigh it.

python -m tests.transfer.moving SOURCE TARGET PIECE
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import msgspec
import psutil

from rowq.engine.engine import Engine
from rowq.store.transfer import exporter
from tests.transfer.journey import copy_in_pieces

_act = Engine.act
_me = psutil.Process()


def say(*words: Any) -> None:
    """Whole, at once; it stays when the process is killed."""
    os.write(1, msgspec.json.encode(words) + b"\n")


def act_and_say(engine: Any, function: Callable[..., Any], **options: Any) -> Any:
    say("weighs", _me.memory_info().rss)
    result = _act(engine, function, **options)
    say("step")
    return result


def main(source: str, target: str, piece: int) -> None:
    Engine.act = act_and_say  # type: ignore[method-assign,assignment]
    exporter.PIECE = piece
    reports = copy_in_pieces(source, target)
    say("copied", sum(report.copied for report in reports))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
