"""The command line, pointed at a server: the same commands, the same output."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rowq.cli import command
from tests.cli.driver import Run
from tests.support.blocking import LoopThread
from tests.support.server import Server


@pytest.fixture
def run(server: Server, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("ROWQ_URL", server.url)
    monkeypatch.setenv("NO_COLOR", "1")
    return Run(monkeypatch)


@pytest.fixture
def elsewhere(loop: LoopThread, tmp_path: Path) -> Iterator[Server]:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    server = Server(loop, f"sqlite:///{folder / 'jobs.db'}", maintenance=False)
    yield server
    server.stop()


def test_a_message_goes_through_its_life(run: Run) -> None:
    sent = run("send", "q", '{"n": 1}', "--json")
    assert sent.exit_code == 0, sent.err
    id = sent.json["id"]
    received = run("receive", "q", "--json")
    assert (received.lines[0]["id"], received.lines[0]["payload"]) == (id, {"n": 1})
    assert run("ack", received.lines[0]["receipt"]).exit_code == 0
    assert [event["event"] for event in run("audit", id, "--json").lines] == ["enqueued", "delivered", "acked"]


@pytest.mark.parametrize(
    "words",
    [["stats"], ["stats", "q"], ["browse", "q"], ["configure", "q"], ["doctor"], ["maintain"], ["purge", "q", "--yes"], ["pause", "q"]],
)
def test_other_commands_work_from_afar(run: Run, words: list[str]) -> None:
    run("send", "q", "1")
    result = run(*words)
    assert result.exit_code == 0, result.err


def test_dead_letters_are_redriven_from_afar(run: Run) -> None:
    run("send", "q", "1")
    run("reject", run("receive", "q", "--json").lines[0]["receipt"])
    assert run("redrive", "q", "--json").json["redriven"] == 1


def test_a_dump_of_one_server_is_loaded_into_another(run: Run, elsewhere: Server, tmp_path: Path) -> None:
    run("send", "q", "1", "--key", "k")
    run("send", "q", "AP8=", "--bytes")
    assert run("dump", "q", str(tmp_path / "q.jsonl")).exit_code == 0
    loaded = run("load", "q", str(tmp_path / "q.jsonl"), "--url", elsewhere.url, "--json")
    assert loaded.json["loaded"] == 2
    assert len(run("browse", "q", "--url", elsewhere.url, "--json").lines) == 2


def test_a_server_is_not_migrated_from_afar(run: Run) -> None:
    result = run("migrate")
    assert result.exit_code == 2
    assert "itself" in result.err


def test_a_server_that_is_not_there_is_told_soon(run: Run, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "REMOTE_TIMEOUT", 0.2)
    server.stop_listening()
    assert "[server_unavailable]" in run("stats").err
    assert "cannot be reached" in run("doctor").out
