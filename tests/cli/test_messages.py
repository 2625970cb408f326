"""send, receive, browse, get, audit, delete."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from tests.cli.driver import Run


def send(run: Run, *args: str, **options: Any) -> str:
    result = run("send", *args, "--json", **options)
    assert result.exit_code == 0, result.err
    return str(result.json["id"])


def received(run: Run, queue: str = "q", *args: str) -> list[Any]:
    result = run("receive", queue, "--json", *args)
    assert result.exit_code == 0, result.err
    return result.lines


@pytest.mark.parametrize("payload", ['{"to": "ada"}', "[1, 2.5, null, true]", '"text"', "null", "0", '"日本 \\u0000 👩"', str(2**53)])
def test_a_payload_is_json_and_comes_back_as_it_was(run: Run, payload: str) -> None:
    import json

    send(run, "q", payload)
    assert received(run)[0]["payload"] == json.loads(payload)


def test_what_is_not_json_is_refused_with_the_way_out(run: Run) -> None:
    result = run("send", "q", "hello")
    assert result.exit_code == 2
    assert "--text" in result.err
    assert result.err.endswith("[invalid_argument]\n")


@pytest.mark.parametrize("payload", ["", "{", "nan", "[" * 100_000, "1e999", '"\\ud800"'])
def test_odd_payloads_are_refused_without_a_traceback(run: Run, payload: str) -> None:
    result = run("send", "q", payload)
    assert result.exit_code == 2
    assert result.err.startswith("rowq: ")


def test_text_and_bytes_are_taken_as_they_are(run: Run, tmp_path: Path) -> None:
    send(run, "q", "42", "--text")
    send(run, "q", "-", "--bytes", stdin=b"\x00\xff\n")
    (tmp_path / "body").write_bytes(b'{"from": "a file"}')
    send(run, "q", "--file", str(tmp_path / "body"))
    send(run, "q", "-", "--text", stdin="zwei\nZeilen ü\n".encode())
    text, data, file, lines = received(run, "q", "--max", "10")
    assert text["payload"] == "42"
    assert base64.b64decode(data["payload_base64"]) == b"\x00\xff\n"
    assert "payload" not in data
    assert file["payload"] == {"from": "a file"}
    assert lines["payload"] == "zwei\nZeilen ü\n"


@pytest.mark.parametrize(
    "args",
    [
        ("send", "q"),
        ("send", "q", "1", "--file", "x"),
        ("send", "q", "--file", "no-such-file"),
        ("send", "q", "1", "--text", "--bytes"),
        ("send", "q", "1", "--header", "novalue"),
        ("send", "q", "1", "--backoff", "soon"),
        ("send", "no queue!", "1"),
        ("send", "q.dlq", "1"),
        ("send", "q", "1", "--delay", "400d"),
        ("send", "q", "1", "--at", "tomorrow"),
        ("send", "q", "1", "--at", "2026-12-24T18:00"),
        ("send", "q", "1", "--at", "2026-12-24T18:00Z", "--delay", "1h"),
        ("send", "q", "1", "--at", "9999-12-31T23:59Z"),
        ("send", "q", "1", "--id", "no spaces"),
        ("receive", "q", "--max", "0"),
        ("receive", "q", "--max", "1001"),
        ("receive", "q", "--wait", "2h"),
        ("browse", "q", "--limit", "0"),
        ("browse", "q", "--after", "not a cursor"),
        ("browse", "q", "--since", "yesterday"),
        ("browse", "q", "--since", ""),
        ("browse", "q", "--since", "\udcff"),
        ("browse", "q", "--until", "2026-13-01"),
        ("browse", "q", "--until", "9" * 19),
        ("dead", "q", "--since", "-5"),
        ("ack", "garbage"),
        ("delete",),
    ],
)
def test_invalid_arguments_are_exit_code_2(run: Run, args: tuple[str, ...]) -> None:
    run("migrate")
    result = run(*args)
    assert result.exit_code == 2, result
    assert result.err.startswith("rowq: ")
    assert result.err.count("\n") == 1


def test_non_utf8_text_is_told_to_use_bytes(run: Run) -> None:
    result = run("send", "q", "-", "--text", stdin=b"\xff")
    assert result.exit_code == 2
    assert "--bytes" in result.err


@pytest.mark.parametrize(
    "args",
    [
        ("get", "\udcff"),
        ("delete", "\udcff"),
        ("browse", "q", "--key", "\udcff"),
        ("receive", "q", "--consumer", "\udcff"),
        ("send", "q", "1", "--header", "a=\udcff"),
        ("send", "q", "\udcff", "--text"),
        ("configure", "q", "on_expire=\udcff"),
        ("ack", "\udcff"),
    ],
)
def test_words_that_are_no_text_are_exit_code_2(run: Run, args: tuple[str, ...]) -> None:
    run("migrate")
    result = run(*args, "--json")
    assert result.exit_code == 2
    assert "UTF-8" in result.error["error"]


def test_bytes_on_the_command_line_need_not_be_text(run: Run) -> None:
    send(run, "q", "\udcff", "--bytes")
    assert received(run)[0]["payload_base64"] == "/w=="


def test_every_option_of_send_arrives(run: Run) -> None:
    id = send(
        run,
        "q",
        "1",
        "--key",
        "k",
        "--group",
        "g",
        "--priority",
        "7",
        "--delay",
        "1h",
        "--ttl",
        "2h",
        "--deadline",
        "3h",
        "--max-attempts",
        "9",
        "--backoff",
        "1s,5s",
        "--header",
        "trace=a=b",
        "--header",
        "x=",
        "--id",
        "my-id",
    )
    assert id == "my-id"
    message = run("get", "my-id", "--json").json
    assert message["state"] == "scheduled"
    assert (message["key"], message["group"], message["priority"], message["max_attempts"]) == ("k", "g", 7, 9)
    assert message["headers"] == {"trace": "a=b", "x": ""}
    assert message["backoff"] == {"kind": "list", "delays_ms": [1000, 5000]}
    assert message["ttl_ms"] == 7_200_000
    assert 0 < message["due_at"] - message["sent_at"] <= 3_600_000
    assert 0 < message["deadline"] - message["sent_at"] <= 10_800_000


def test_a_message_is_due_at_the_moment_that_was_written(run: Run) -> None:
    moment = (datetime.now(UTC) + timedelta(days=30)).astimezone(timezone(timedelta(hours=1))).replace(microsecond=0)
    message = run("get", send(run, "q", "1", "--at", moment.isoformat()), "--json").json
    assert message["due_at"] == round(moment.timestamp() * 1000)
    assert "timezone" in run("send", "q", "1", "--at", "2026-12-24T18:00").err


def test_the_same_own_id_twice_is_refused(run: Run) -> None:
    send(run, "q", "1", "--id", "mine")
    result = run("send", "q", "2", "--id", "mine")
    assert result.exit_code == 1
    assert "[id_taken]" in result.err


def test_send_prints_the_bare_id_for_people(run: Run) -> None:
    id = run("send", "q", "1").out.strip()
    assert run("get", id).exit_code == 0


def test_receive_prints_deliveries_as_json_lines(run: Run) -> None:
    send(run, "q", '{"n": 1}', "--key", "k", "--header", "a=b")
    send(run, "q", '{"n": 2}')
    first, second = received(run, "q", "--max", "10", "--lease", "5m", "--consumer", "me")
    assert set(first) == {
        "id",
        "queue",
        "payload",
        "headers",
        "attempt",
        "receipt",
        "lease_until",
        "sent_at",
        "key",
        "group",
        "priority",
    }
    assert (first["payload"], first["key"], first["headers"], first["attempt"]) == ({"n": 1}, "k", {"a": "b"}, 1)
    assert second["payload"] == {"n": 2}


def test_receive_shows_people_the_receipt_and_the_whole_payload(run: Run) -> None:
    send(run, "q", '"' + "long " * 200 + '"', "--key", "k")
    out = run("receive", "q").out
    receipt = out.splitlines()[0]
    assert "long " * 200 in out
    assert "key k" in out
    assert run("ack", receipt).exit_code == 0


def test_an_empty_receive_is_exit_code_3(run: Run) -> None:
    result = run("receive", "q")
    assert (result.exit_code, result.out) == (3, "")
    assert "[empty]" in result.err
    assert run("receive", "q", "--json").error["code"] == "empty"


def test_receive_with_ack_leaves_nothing(run: Run) -> None:
    send(run, "q", "1")
    received(run, "q", "--ack")
    stats = run("stats", "q", "--json").json
    assert (stats["ready"], stats["leased"]) == (0, 0)


def test_dead_letters_can_be_received_by_their_name(run: Run) -> None:
    send(run, "q", "1")
    run("reject", received(run)[0]["receipt"])
    assert received(run, "q.dlq")[0]["payload"] == 1


def test_browse_shows_each_state(run: Run) -> None:
    send(run, "q", '"now"', "--key", "k")
    send(run, "q", '"later"', "--delay", "1h")
    assert [m["payload"] for m in run("browse", "q", "--json").lines] == ["now"]
    assert [m["payload"] for m in run("browse", "q", "--state", "scheduled", "--json").lines] == ["later"]
    assert [m["payload"] for m in run("browse", "q", "--key", "k", "--json").lines] == ["now"]
    assert run("browse", "q", "--key", "other", "--json").lines == []
    received(run, "q", "--consumer", "worker-7")
    table = run("browse", "q", "--state", "leased").out
    assert "worker-7" in table
    assert '"now"' in table
    run("configure", "empty", "max_attempts=5")
    assert run("browse", "empty").exit_code == 0
    assert run("browse", "missing").exit_code == 3


def test_browse_pages_by_cursor(run: Run) -> None:
    for n in range(5):
        send(run, "q", str(n))
    seen: list[int] = []
    after: tuple[str, ...] = ()
    while page := run("browse", "q", "--limit", "2", "--json", *after).lines:
        seen += [m["payload"] for m in page]
        after = ("--after", page[-1]["cursor"])
    assert seen == [0, 1, 2, 3, 4]


def test_browse_and_dead_tell_messages_by_when_they_were_sent(run: Run) -> None:
    id = send(run, "q", "1")
    sent_at = run("get", id, "--json").json["sent_at"]
    written = datetime.fromtimestamp(sent_at / 1000, timezone(timedelta(hours=5)))
    in_utc = written.astimezone(UTC).replace(tzinfo=None)
    now = [str(sent_at), written.isoformat(), in_utc.isoformat(), in_utc.isoformat(sep=" ") + "Z"]
    before, after = ["2h", "3600", "99999d", "2020-01-01", "1960-01-01", *now], [str(sent_at + 1), "2999-01-01", "9999-12-31T23:59-05:00"]

    def check(command: str) -> None:
        for when in before:
            assert len(run(command, "q", "--since", when, "--json").lines) == 1, when
            assert run(command, "q", "--until", when, "--json").lines == [], when
        for when in after:
            assert run(command, "q", "--since", when, "--json").lines == [], when
            assert len(run(command, "q", "--until", when, "--json").lines) == 1, when

    check("browse")
    run("reject", received(run)[0]["receipt"])
    check("dead")


def test_get_tells_everything_and_an_unknown_id_is_exit_code_3(run: Run) -> None:
    id = send(run, "q", '{"deep": {"er": [1]}}', "--header", "a=b")
    out = run("get", id).out
    assert id in out
    assert '"deep": {' in out
    assert "'a': 'b'" in out
    message = run("get", id, "--json").json
    assert message["state"] == "ready"
    assert message["error"] is None
    result = run("get", "no-such-id")
    assert result.exit_code == 3
    assert "[message_not_found]" in result.err


def test_audit_tells_the_story(run: Run) -> None:
    id = send(run, "q", "1")
    receipt = received(run)[0]["receipt"]
    run("nack", receipt, "--reason", "boom", "--delay", "0")
    events = run("audit", id, "--json").lines
    assert [event["event"] for event in events] == ["enqueued", "delivered", "nacked"]
    assert events[-1]["detail"] == "boom"
    assert events[0]["actor"].startswith("cli")
    assert "boom" in run("audit", id).out
    assert run("audit", "no-such-id").exit_code == 3


def test_delete_messages(run: Run) -> None:
    ids = [send(run, "q", "1"), send(run, "q", "2")]
    result = run("delete", ids[0], "no-such-id", ids[1], "--json")
    assert result.exit_code == 3
    assert result.json == {"deleted": 2, "not_found": ["no-such-id"]}
    assert run("stats", "q", "--json").json["depth"] == 0


def test_a_message_whose_id_several_queues_have_needs_its_queue(run: Run) -> None:
    for queue in ("p", "q"):
        send(run, queue, f'"{queue}"', "--id", "mine")
    for command in ("get", "audit", "delete"):
        refused = run(command, "mine")
        assert refused.exit_code == 1 and "[ambiguous_id]" in refused.err, command
    assert run("get", "mine", "--in", "p", "--json").json["payload"] == "p"
    assert [event["queue"] for event in run("audit", "mine", "--in", "q", "--json").lines] == ["q"]
    sure = send(run, "q", "1")
    refused = run("delete", "mine", sure, "--json")  # the one that is clear is deleted, and said to be
    assert refused.exit_code == 1 and refused.json["deleted"] == 1 and run("get", sure).exit_code == 3
    assert run("delete", "mine", "--in", "p").exit_code == 0
    assert run("get", "mine", "--json").json["queue"] == "q"
    for words in (("delete", "--queue", "q", "--in", "q", "--yes"), ("audit", "--in", "q"), ("audit", "mine", "--queue", "q")):
        assert run(*words).exit_code == 2, words


def test_delete_a_queue_only_with_consent(run: Run) -> None:
    send(run, "q", "1")
    refused = run("delete", "--queue", "q")
    assert refused.exit_code == 2
    assert "1 message" in refused.err
    assert run("delete", "--queue", "q", "--yes").exit_code == 0
    assert run("stats", "--json").out == ""
    assert run("delete", "--queue", "q", "--yes").exit_code == 3


def test_a_global_url_stands_before_or_after_the_command(run: Run, tmp_path: Path) -> None:
    other = f"sqlite:///{tmp_path / 'other.db'}"
    assert run("--url", other, "send", "q", "1").exit_code == 0
    assert run("stats", "q", "--url", other, "--json").json["ready"] == 1
    assert run("--json", "stats", "q", "--url", other).json["ready"] == 1
    assert run("--url", "sqlite:///nowhere.db", "stats", "q", "--url", other).exit_code == 0


def test_looking_at_a_database_that_is_not_there_is_exit_code_4_and_makes_none(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "mistyped.db"
    for command in (("stats",), ("browse", "q"), ("dump",), ("purge", "q", "--yes")):
        result = run(*command, "--url", f"sqlite:///{path}")
        assert result.exit_code == 4, command
        assert result.err.startswith("rowq: ")
    assert not path.exists()


def test_what_is_no_database_is_exit_code_4(run: Run, tmp_path: Path) -> None:
    (tmp_path / "junk.db").write_bytes(b"this is not a database at all" * 100)
    for command in (("send", "q", "1"), ("stats",), ("doctor",)):
        result = run(*command, "--url", f"sqlite:///{tmp_path / 'junk.db'}")
        assert result.exit_code == (1 if command == ("doctor",) else 4)
        assert "Traceback" not in result.err
    assert run("stats", "--url", "gopher://x").exit_code in (2, 4)
