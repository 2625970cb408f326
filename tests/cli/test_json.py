"""With --json every command prints objects: one where one thing is printed, and of a list one a line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rowq
from rowq.spark.ledger import open_ledger
from tests.cli.driver import Run
from tests.docs.test_reference import COMMANDS
from tests.support.life import bury, take

LISTS: dict[str, tuple[str, ...]] = {
    "stats": (),
    "consumers": (),
    "receive": ("q", "--max", "2"),
    "browse": ("q",),
    "dead": ("q",),
    "failures": ("q",),
    "audit": ("DEAD",),
    "doctor": (),
    "maintenance-tasks": (),
    "streams list": (),
    "keys list": (),
    "dump": ("q",),
    "ack": ("RECEIPT",),
    "nack": ("RECEIPT",),
    "reject": ("RECEIPT",),
    "reschedule": ("RECEIPT", "--delay", "1h"),
    "extend": ("RECEIPT",),
}
SINGLE: dict[str, tuple[str, ...]] = {
    "send": ("q", "1"),
    "get": ("DEAD",),
    "delete": ("DEAD",),
    "configure": ("q",),
    "pause": ("q",),
    "resume": ("q",),
    "purge": ("q", "--yes"),
    "redrive": ("q",),
    "delete-dead": ("q", "DEAD", "--yes"),
    "load": ("q", "-"),
    "copy": ("HERE", "THERE"),
    "migrate": (),
    "maintain": (),
    "keys create": ("second", "--scope", "send"),
    "keys revoke": ("first",),
    "streams revoke": ("lake", "--yes"),
    "streams quarantine": ("lake", "1", "HELD", "--yes"),
}
ELSEWHERE = {"serve", "peq install", *(f"pipeline {name}" for name in ("archive", "report", "replay", "compact", "vacuum"))}
"""Those need a server's port, PostgreSQL or Spark: tests/server, tests/compat/peq and tests/pipeline read the one object of each."""


@pytest.fixture
def words(url: str, broker: rowq.Broker, tmp_path: Path) -> Iterator[dict[str, str]]:
    """Something for every command, and what it is called."""
    broker.configure("q", lease=3600)
    dead = bury(broker, reason="no such address")
    broker.send_many("q", [1, 2, 3, b"\x00"])
    receipt = take(broker).receipt
    broker.register("q")
    broker.create_key("first", scopes=["send"])
    held = broker.send("orders", "held")
    with open_ledger(url) as ledger:
        ledger.take("lake", ledger.claim("lake", ["orders"]).epoch, 0, 1)
        yield {"DEAD": dead, "RECEIPT": receipt, "HELD": held, "HERE": url, "THERE": f"sqlite:///{tmp_path / 'there.db'}"}


def printed(run: Run, name: str, args: tuple[str, ...], words: dict[str, str]) -> list[Any]:
    result = run(*name.split(), *(words.get(arg, arg) for arg in args), "--json", stdin=b'{"payload": 1}\n')
    assert result.exit_code == 0, result.err
    assert result.out.endswith("\n")
    return result.lines


@pytest.mark.parametrize("name", LISTS)
def test_a_list_is_an_object_a_line(run: Run, name: str, words: dict[str, str]) -> None:
    lines = printed(run, name, LISTS[name], words)
    assert lines and all(isinstance(line, dict) for line in lines)
    assert len(lines) == 2 or name not in ("stats", "receive"), "a line for each"


@pytest.mark.parametrize("name", SINGLE)
def test_one_thing_is_one_object(run: Run, name: str, words: dict[str, str]) -> None:
    (line,) = printed(run, name, SINGLE[name], words)
    assert isinstance(line, dict)


def test_an_empty_list_is_no_line(run: Run, url: str, broker: rowq.Broker) -> None:
    assert [run(*name.split(), "--json").out for name in ("stats", "consumers", "streams list", "keys list")] == [""] * 4


def test_every_command_is_tried() -> None:
    assert LISTS.keys() | SINGLE.keys() | ELSEWHERE == set(COMMANDS)
