"""stats, configure, pause, resume, purge, dead, redrive."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rowq import Broker
from tests.cli.driver import Run
from tests.support.patience import eventually


def test_stats_of_one_queue_and_of_all(run: Run) -> None:
    run("send", "b", "1")
    run("send", "a", "1", "--delay", "1h")
    one = run("stats", "a", "--json").json
    assert (one["queue"], one["scheduled"], one["depth"], one["paused"]) == ("a", 1, 1, False)
    assert [stats["queue"] for stats in run("stats", "--json").lines] == ["a", "b"]
    table = run("stats").out
    assert "scheduled" in table
    missing = run("stats", "never-used", "--json")
    assert (missing.exit_code, missing.out, missing.error["code"]) == (3, "", "queue_not_found")


def test_consumers_that_are_alive_are_listed_by_age(run: Run, broker: Broker) -> None:
    assert run("consumers", "q", "--json").lines == []
    first, second = broker.register("q").id, broker.register("q").id
    assert [(each["id"], each["index"]) for each in run("consumers", "q", "--json").lines] == [(first, 0), (second, 1)]
    assert [line.split()[:2] for line in run("consumers", "q").out.splitlines()[-2:]] == [["0", first], ["1", second]]
    assert len(run("consumers", "q", "--dead-after", "1h", "--json").lines) == 2
    assert run("consumers", "q", "--dead-after", "2h").exit_code == 2
    assert run("consumers", "q.dlq").exit_code == 2


def test_how_long_a_consumer_may_be_silent_is_said_by_whoever_asks(run: Run, broker: Broker) -> None:
    id = broker.register("q").id
    assert eventually(lambda: not run("consumers", "q", "--dead-after", "1ms", "--json").lines)
    assert [each["id"] for each in run("consumers", "q", "--dead-after", "1h", "--json").lines] == [id]


def test_without_a_queue_all_who_take_messages_are_listed(run: Run, broker: Broker) -> None:
    assert run("consumers", "--json").lines == []
    id = broker.register("q").id
    broker.send_many("p", range(2))
    broker.receive("p", max=2, consumer="worker")
    seen = [
        (each["queue"], each["id"], each["alive"], each["in_flight"]) for each in run("consumers", "--dead-after", "1h", "--json").lines
    ]
    assert seen == [("p", "worker", None, 2), ("q", id, True, 0)]
    lines = run("consumers", "--dead-after", "1h").out.splitlines()[-2:]
    assert [line.split()[:2] for line in lines] == [["p", "worker"], ["q", id]]
    assert "not registered" in lines[0]


def test_pause_and_resume(run: Run) -> None:
    run("send", "q", "1")
    assert run("pause", "q", "--json").json == {"queue": "q", "paused": True}
    assert run("receive", "q").exit_code == 3
    assert "paused" in run("stats").out
    assert run("resume", "q").out == "q is running\n"
    assert run("receive", "q").exit_code == 0


def test_purge_needs_yes_where_nobody_can_be_asked(run: Run) -> None:
    run("send", "q", "1")
    result = run("purge", "q")
    assert result.exit_code == 2
    assert "1 ready" in result.err
    assert "--yes" in result.err
    assert run("purge", "q", "--yes", "--json").json == {"queue": "q", "purged": 1}


@pytest.mark.parametrize(("answer", "left"), [(b"y\n", 0), (b"yes\n", 0), (b"n\n", 2), (b"\n", 2), (b"", 2)])
def test_purge_asks_a_person_and_names_the_number(run: Run, answer: bytes, left: int) -> None:
    run("send", "q", "1")
    run("send", "q", "2")
    result = run("purge", "q", stdin=answer, terminal=True)
    assert "Delete 2 ready and 0 scheduled and 0 blocked from q? [y/N]" in result.err
    assert result.exit_code == (1 if left else 0)
    assert run("stats", "q", "--json").json["ready"] == left


def test_purge_takes_only_the_states_named(run: Run) -> None:
    run("send", "q", "1")
    run("send", "q", "2", "--delay", "1h")
    assert run("purge", "q", "--state", "scheduled", "--state", "dead", "--yes", "--json").json["purged"] == 1
    assert run("stats", "q", "--json").json["ready"] == 1


def test_purge_of_the_dead_letters_leaves_what_waits(run: Run, dead: list[str]) -> None:
    run("send", "q", "5")
    assert "dead from q.dlq" in run("purge", "q.dlq").err
    assert run("purge", "q.dlq", "--yes", "--json").json["purged"] == len(dead)
    counts = run("stats", "q", "--json").json
    assert (counts["ready"], counts["dead"]) == (1, 0)


def settings(run: Run, *pairs: str) -> Any:
    result = run("configure", "q", *pairs, "--json")
    assert result.exit_code == 0, result.err
    return result.json["settings"]


def test_configure_reads_durations_numbers_switches_and_backoffs(run: Run) -> None:
    shown = settings(
        run, "lease=90s", "max_attempts=9", "backoff=1s,500ms", "ttl=7d", "on_expire=delete", "audit=off", "refresh_ttl=yes", "keep=body"
    )
    assert shown["lease_ms"] == {"value": 90_000, "origin": "queue"}
    assert shown["max_attempts"]["value"] == 9
    assert shown["backoff"]["value"] == {"kind": "list", "delays_ms": [1000, 500]}
    assert shown["ttl_ms"]["value"] == 604_800_000
    assert (shown["on_expire"]["value"], shown["audit"]["value"], shown["refresh_ttl"]["value"]) == ("delete", False, True)
    assert shown["dlq_ttl_ms"] == {"value": 0, "origin": "default"}


def test_configure_without_pairs_shows_values_and_their_origin(run: Run) -> None:
    settings(run, "lease=90s", "backoff=exponential:1s,cap=1h")
    out = run("configure", "q").out
    rows = {words[0]: words for line in out.splitlines() if (words := line.split())}
    assert rows["lease"] == ["lease", "90s", "queue"]
    assert rows["backoff"][1] == "exponential:1s,factor=2,cap=1h,jitter=0"
    assert rows["max_depth"][1:] == ["0", "(no", "limit)", "default"]
    assert rows["refresh_ttl"][1] == "false"
    assert rows["max_attempts"] == ["max_attempts", "5", "default"]


def test_none_goes_back_to_the_default_where_none_is_no_value(run: Run) -> None:
    settings(run, "lease=90s", "max_attempts=9", "keep=body")
    shown = settings(run, "lease=none", "max_attempts=", "keep=none")
    assert shown["lease_ms"] == {"value": 30_000, "origin": "default"}
    assert shown["max_attempts"]["origin"] == "default"
    assert shown["keep"] == {"value": "none", "origin": "queue"}
    assert settings(run, "keep=")["keep"]["origin"] == "default"


def test_a_schema_comes_from_a_file_and_is_obeyed(run: Run, tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_text(json.dumps({"type": "object", "required": ["to"]}))
    settings(run, f"schema=@{tmp_path / 'schema.json'}")
    assert run("send", "q", '{"to": 1}').exit_code == 0
    result = run("send", "q", "{}")
    assert result.exit_code == 2
    assert "[payload_rejected]" in result.err
    settings(run, "schema=none")
    assert run("send", "q", "{}").exit_code == 0


@pytest.mark.parametrize(
    "pair",
    [
        "lease",
        "colour=red",
        "lease=soon",
        "max_attempts=many",
        "audit=perhaps",
        "on_expire=explode",
        "schema=@no-such-file",
        "schema={",
        "lease=0",
        "=",
        "keep=all",
    ],
)
def test_a_bad_setting_is_exit_code_2_and_changes_nothing(run: Run, pair: str) -> None:
    settings(run, "max_depth=7")
    result = run("configure", "q", "max_depth=8", pair)
    assert result.exit_code == 2, result
    assert settings(run)["max_depth"]["value"] == 7


def test_settings_of_a_queue_never_used_are_exit_code_3(run: Run) -> None:
    run("migrate")
    result = run("configure", "nobody", "--json")
    assert result.exit_code == 3
    assert result.error["code"] == "queue_not_found"


def test_a_full_queue_is_exit_code_1(run: Run) -> None:
    settings(run, "max_depth=1")
    assert run("send", "q", "1").exit_code == 0
    result = run("send", "q", "2")
    assert result.exit_code == 1
    assert "[queue_full]" in result.err


@pytest.fixture
def dead(run: Run) -> list[str]:
    """Four dead letters: their ids."""
    for n in range(4):
        run("send", "q", str(n))
    lines = run("receive", "q", "--max", "4", "--json").lines
    run("reject", *(line["receipt"] for line in lines[:2]), "--reason", "timeout in stage 1")
    run("reject", *(line["receipt"] for line in lines[2:]), "--reason", "bad address")
    return [line["id"] for line in lines]


def test_dead_lists_reason_and_error(run: Run, dead: list[str]) -> None:
    table = run("dead", "q").out
    assert "rejected" in table
    assert "bad address" in table
    assert [letter["id"] for letter in run("dead", "q", "--json").lines] == dead
    assert len(run("dead", "q", "--limit", "2", "--json").lines) == 2


def test_dead_lists_only_those_that_match(run: Run, dead: list[str]) -> None:
    for options, expected in (
        (("--reason", "rejected", "--error", "stage"), dead[:2]),
        (("--fingerprint", "timeout in stage <number>"), dead[:2]),
        (("--fingerprint", "bad address", "--newest", "--limit", "1"), dead[3:]),
        (("--reason", "message_expired"), []),
    ):
        assert [letter["id"] for letter in run("dead", "q", *options, "--json").lines] == expected
    assert run("dead", "q", "--error", "").exit_code == 2


def test_redrive_all_some_or_by_id(run: Run, dead: list[str]) -> None:
    assert run("redrive", "q", dead[0], "--json").json == {"queue": "q", "redriven": 1}
    assert run("redrive", "q", "--error", "stage 1").out == "1 dead letter redriven\n"
    assert run("redrive", "q", "--reason", "max_attempts_reached").out == "0 dead letters redriven\n"
    assert run("redrive", "q", "--limit", "1").out == "1 dead letter redriven\n"
    assert run("redrive", "q", "--rate", "1000").out == "1 dead letter redriven\n"
    assert run("stats", "q", "--json").json["ready"] == 4


def test_redrive_of_an_id_that_is_no_dead_letter_is_exit_code_3(run: Run, dead: list[str]) -> None:
    result = run("redrive", "q", dead[0], "no-such-id")
    assert result.exit_code == 3
    assert result.out == "1 dead letter redriven\n"
    assert run("redrive", "q", dead[1], "--reason", "rejected").exit_code == 2
    assert run("redrive", "q", "--limit", "0").exit_code in (0, 2)
    assert run("redrive", "q", "--rate", "0").exit_code == 2


def test_redrive_shows_a_bar_on_a_terminal(run: Run, dead: list[str]) -> None:
    result = run("redrive", "q", terminal=True)
    assert result.exit_code == 0
    assert "redrive q" in result.err


def test_dead_letters_are_deleted_by_id_or_by_filter_and_never_by_accident(run: Run, dead: list[str]) -> None:
    asked = run("delete-dead", "q", dead[0])
    assert (asked.exit_code, asked.out) == (2, "")
    assert "--yes" in asked.err
    unsaid = run("delete-dead", "q.dlq", "--yes")
    assert unsaid.exit_code == 2
    assert "rowq purge q.dlq" in unsaid.err
    assert run("delete-dead", "q", dead[0], "--yes", "--json").json == {"queue": "q", "deleted": 1}
    assert run("delete-dead", "q", "--error", "bad", "--limit", "1", "--yes").out == "1 dead letter deleted\n"
    assert run("delete-dead", "q", dead[0], "--yes").exit_code == 3
    assert run("stats", "q", "--json").json["dead"] == 2


def test_dead_begins_with_the_newest_where_that_is_asked(run: Run, dead: list[str]) -> None:
    assert [letter["id"] for letter in run("dead", "q", "--newest", "--json").lines] == [*reversed(dead)]
    assert len(run("browse", "q", "--state", "dead", "--newest", "--limit", "3", "--json").lines) == 3
    assert run("browse", "q", "--newest").exit_code == 2


def test_failures_are_shown_and_redriven_by_their_fingerprint(run: Run, dead: list[str]) -> None:
    shown = run("failures", "q", "--json")
    assert [(each["fingerprint"], each["count"]) for each in shown.lines] == [("bad address", 2), ("timeout in stage <number>", 2)]
    assert shown.err == ""  # none were left out
    rows = [line.split() for line in run("failures", "q").out.splitlines()[2:]]
    assert [row[:4] for row in rows] == [["2", "rejected", "bad", "address"], ["2", "rejected", "timeout", "in"]]
    assert len(run("failures", "q", "--limit", "1", "--json").lines) == 1
    assert run("redrive", "q", "--fingerprint", "timeout in stage <number>").out == "2 dead letters redriven\n"


def test_purge_shows_a_bar_on_a_terminal(run: Run, dead: list[str]) -> None:
    result = run("purge", "q", "--state", "dead", "--yes", terminal=True)
    assert result.exit_code == 0
    assert "purge q" in result.err
