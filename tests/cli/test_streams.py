"""Streams on the command line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rowq import Broker
from rowq.spark.ledger import Ledger, StreamClaim, open_ledger
from tests.cli.driver import Run


@pytest.fixture
def ledger(url: str, broker: Broker) -> Iterator[Ledger]:
    with open_ledger(url) as ledger:
        yield ledger


@pytest.fixture
def ids(broker: Broker) -> list[str]:
    return broker.send_many("orders", [1, 2, 3])


@pytest.fixture
def held(ledger: Ledger, ids: list[str]) -> StreamClaim:
    held = ledger.claim("lake", ["orders"])
    assert ledger.take("lake", held.epoch, 0, 2) == 1
    return held


def test_list_shows_what_each_stream_holds(run: Run, held: StreamClaim) -> None:
    line = run("streams", "list").out.splitlines()[-1]
    assert line.split()[:5] == ["lake", "orders", "0", "1", "2"]
    (document,) = run("streams", "list", "--json").lines
    assert (document["name"], document["messages"], document["batches"]) == ("lake", 2, 1)


def test_a_message_of_a_stream_has_no_lease_that_ends(run: Run, held: StreamClaim, ids: list[str]) -> None:
    assert run("browse", "orders", "--state", "leased").out.count("with its stream's batch") == 2
    (line,) = (line for line in run("get", ids[0]).out.splitlines() if line.startswith("lease_until"))
    assert line.split(maxsplit=1)[1] == "with its stream's batch"


def test_list_names_the_batches_that_quarantine_asks_for(run: Run, ledger: Ledger, held: StreamClaim, broker: Broker) -> None:
    broker.send("orders", 4)
    assert ledger.take("lake", held.epoch, 1, 2) == 2
    assert run("streams", "list").out.splitlines()[-1].split()[:5] == ["lake", "orders", "1", "2", "2"]
    ledger.ack("lake", held.epoch, 2)
    assert run("streams", "list").out.splitlines()[-1].split()[:4] == ["lake", "orders", "2", "0"]


def test_revoke_sends_back_what_a_stream_holds(run: Run, broker: Broker, held: StreamClaim) -> None:
    assert run("streams", "revoke", "lake", "--yes").out == "2 messages sent back\n"
    assert broker.stats("orders").ready == 3
    assert run("streams", "revoke", "lake", "--yes", "--json").json == {"stream": "lake", "revoked": 0}


def test_revoke_asks_first(run: Run, broker: Broker, held: StreamClaim) -> None:
    result = run("streams", "revoke", "lake")
    assert result.exit_code == 2 and "--yes" in result.err
    assert broker.stats("orders").leased == 2


def test_quarantine_makes_dead_letters(run: Run, broker: Broker, held: StreamClaim, ids: list[str]) -> None:
    result = run("streams", "quarantine", "lake", "1", ids[0], "--reason", "poison", "--yes")
    assert (result.exit_code, result.out) == (0, "1 message quarantined\n")
    assert [(message.id, message.error) for message in broker.browse("orders", state="dead")] == [(ids[0], "poison")]
    assert run("streams", "quarantine", "lake", "1", ids[1], "--yes", "--json").json == {"stream": "lake", "batch": 1, "quarantined": 1}


def test_what_is_not_there_is_not_found(run: Run, held: StreamClaim, ids: list[str], tmp_path: Path) -> None:
    assert run("streams", "revoke", "nobody", "--yes").exit_code == 3
    assert run("streams", "quarantine", "lake", "1", ids[2], "--yes").exit_code == 3
