"""`rowq copy`: what it prints for people and for programs, what it asks, and how it ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import rowq
from tests.cli.driver import Result, Run
from tests.support.life import drain, take


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.delenv("ROWQ_URL", raising=False)
    return Run(monkeypatch)


@pytest.fixture
def urls(tmp_path: Path) -> tuple[str, str]:
    return f"sqlite:///{tmp_path / 'old.db'}", f"sqlite:///{tmp_path / 'new.db'}"


@pytest.fixture
def source(urls: tuple[str, str]) -> Iterator[rowq.Broker]:
    """Two queues: three messages, one of them leased, and one."""
    with rowq.connect(urls[0], maintenance=False) as broker:
        broker.send_many("mails", range(3))
        broker.send("orders", "x")
        take(broker, "mails", lease=3600)
        yield broker


def test_people_see_the_counts_and_that_they_agree(run: Run, urls: tuple[str, str], source: rowq.Broker) -> None:
    result = run("copy", *urls)
    assert (result.exit_code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[0].split() == ["queue", "copied", "ready", "scheduled", "leased", "blocked", "dead", "finished"]
    assert lines[2].split() == ["mails", "3", "3", "0", "0", "0", "0", "0"]
    assert lines[3].split() == ["orders", "1", "1", "0", "0", "0", "0", "0"]
    assert lines[4] == "4 messages copied; the counts agree"
    assert lines[5] == "1 lease ran on at FROM: what is settled there from now on is delivered again at TO"
    assert len(lines) == 6


def test_programs_get_one_document(run: Run, urls: tuple[str, str], source: rowq.Broker) -> None:
    states = dict.fromkeys(("ready", "scheduled", "leased", "blocked", "dead", "finished"), 0)
    assert run("copy", *urls, "--queue", "mails", "--json").json == {
        "copied": 3,
        "removed": 0,
        "later": 0,
        "leases": 1,
        "agrees": True,
        "queues": [
            {
                "queue": "mails",
                "copied": 3,
                "removed": 0,
                "later": 0,
                "agrees": True,
                "source": {**states, "ready": 2, "leased": 1},
                "target": {**states, "ready": 3},
            }
        ],
    }
    again = run("copy", *urls, "--queue", "mails", "--json").json
    assert again["queues"] == [{"queue": "mails", "copied": 0, "removed": 0, "later": 0, "agrees": True, "source": None, "target": None}]


def test_a_second_run_says_that_there_was_nothing_to_do(run: Run, urls: tuple[str, str], source: rowq.Broker) -> None:
    run("copy", *urls)
    assert run("copy", *urls).out.splitlines()[4] == "nothing new: all of it had arrived before"
    source.send("mails", "late")
    assert run("copy", *urls).out.splitlines()[4] == "1 message copied"


def test_counts_that_differ_are_told(run: Run, urls: tuple[str, str], source: rowq.Broker) -> None:
    """Of two messages under one key, the one that was leased gives way."""
    source.send("keyed", 1, key="k")
    take(source, "keyed", lease=3600)
    source.send("keyed", 2, key="k")
    result = run("copy", *urls, "--queue", "keyed")
    assert result.exit_code == 0
    assert "2 messages copied; the counts differ\n" in result.out
    told = "keyed: 2 to be done, 0 dead, 0 finished at FROM, 1 to be done, 0 dead, 0 finished at TO; each of FROM was looked up at TO"
    assert f"{told}\n" in result.out


def test_a_dry_run_counts_and_makes_nothing(run: Run, urls: tuple[str, str], source: rowq.Broker, tmp_path: Path) -> None:
    result = run("copy", *urls, "--dry-run")
    assert result.exit_code == 0
    lines = result.out.splitlines()
    assert lines[2].split() == ["mails", "2", "0", "1", "0", "0", "0"]
    assert lines[4] == "4 messages to copy; nothing was changed"
    assert lines[5].startswith("TO could not be read: there is no database at ")
    assert not (tmp_path / "new.db").exists()
    assert not source.stats("mails").paused
    document = run("copy", *urls, "--dry-run", "--json").json
    assert (document["messages"], [queue["queue"] for queue in document["queues"]]) == (4, ["mails", "orders"])
    assert document["target"].startswith("there is no database at ")


def test_a_dry_run_finds_what_would_be_refused(run: Run, urls: tuple[str, str], source: rowq.Broker) -> None:
    with rowq.connect(urls[1], maintenance=False) as target:
        target.send("mails", "own")
    result = run("copy", *urls, "--dry-run")
    assert result.exit_code == 2
    assert "'mails' holds 1 messages at the target" in result.err
    assert run("copy", *urls, "--dry-run", "--queue", "orders", "--json").json["target"] is None
    assert run("copy", urls[0], urls[0], "--dry-run").exit_code == 2


def test_what_has_arrived_is_deleted_after_asking(run: Run, urls: tuple[str, str], source: rowq.Broker) -> None:
    refused = run("copy", *urls, "--remove")
    assert refused.exit_code == 2
    assert "add --yes" in refused.err
    assert not source.stats("mails").paused
    declined = run("copy", *urls, "--remove", stdin=b"n\n", terminal=True)
    assert (declined.exit_code, declined.err.splitlines()[-1][-10:]) == (1, "[declined]")
    result = run("copy", *urls, "--remove", "--yes")
    assert result.out.splitlines()[-1] == "4 messages deleted at FROM"
    assert [stats.depth for stats in source.queues()] == [0, 0]
    with rowq.connect(urls[1], maintenance=False) as target:
        assert drain(target, "mails") == [0, 1, 2]


def test_what_is_sent_meanwhile_is_told(run: Run, urls: tuple[str, str], source: rowq.Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    from rowq.transfer.copy import Copier

    finish = Copier.finish

    def finish_late(self: Copier) -> object:
        source.send("mails", "late")
        return finish(self)

    monkeypatch.setattr(Copier, "finish", finish_late)
    assert run("copy", *urls).out.splitlines()[-1] == "1 message came to FROM meanwhile: stop the producers there, and run the copy again"


def test_there_is_a_bar_on_a_terminal_only(run: Run, urls: tuple[str, str], source: rowq.Broker) -> None:
    assert run("copy", *urls, "--queue", "orders").err == ""
    shown = run("copy", *urls, terminal=True).err
    assert "messages" in shown and "audit" in shown


def test_leases_are_waited_for(run: Run, urls: tuple[str, str], source: rowq.Broker) -> None:
    """For as long as is said, and no longer."""
    assert run("copy", *urls, "--wait-for-leases", "50ms", "--json").json["leases"] == 1
    assert run("copy", *urls, "--wait-for-leases", "soon").exit_code == 2


@pytest.mark.parametrize(
    ("change", "exit_code", "code"),
    [
        (("http://localhost:8080", None), 2, "invalid_argument"),
        ((None, "https://localhost"), 2, "invalid_argument"),
        ((None, "redis://localhost"), 2, "invalid_argument"),
        (("sqlite:////nowhere/at/all.db", None), 4, "store_unavailable"),
        ((None, "sqlite:////nowhere/at/all.db"), 4, "store_unavailable"),
    ],
)
def test_bad_urls_are_one_line(
    run: Run, urls: tuple[str, str], source: rowq.Broker, change: tuple[str | None, str | None], exit_code: int, code: str
) -> None:
    result = run("copy", change[0] or urls[0], change[1] or urls[1])
    assert (result.exit_code, result.out, result.err.count("\n")) == (exit_code, "", 1)
    assert result.err.endswith(f"[{code}]\n")
    assert not source.stats("mails").paused


def test_an_unknown_queue_is_not_found(run: Run, urls: tuple[str, str], source: rowq.Broker) -> None:
    result: Result = run("copy", *urls, "--queue", "mail", "--json")
    assert (result.exit_code, result.error["code"]) == (3, "queue_not_found")


def test_the_help_tells_what_becomes_of_leases(run: Run) -> None:
    told = run("copy", "--help").out
    for word in ("FROM", "TO", "--queue", "--wait-for-leases", "--no-audit", "--remove", "--dry-run", "--yes", "leased"):
        assert word in told
