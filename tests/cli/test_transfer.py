"""load and dump: everything survives the journey, and a load that stopped can go on."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rowq
from tests.cli.driver import Run
from tests.support.life import bury
from tests.support.patience import eventually


def write_lines(path: Path, lines: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def payloads(run: Run, queue: str = "q") -> list[Any]:
    return [message["payload"] for message in run("browse", queue, "--limit", "1000", "--json").lines]


SENT: list[tuple[Any, dict[str, Any]]] = [
    (
        {"text": "日本 \u0000\u2028 👩‍🚀 \x1b[31m", "big": 2**60, "float": 0.1, "none": None},
        {"key": "ключ", "group": "g", "priority": -3, "ttl": 86_400, "max_attempts": 7, "headers": {"n": "0", "a": "ü", "b": ""}},
    ),
    (bytes(range(256)), {"backoff": rowq.exponential(1, cap=60, jitter=0.5), "keys_if_undelivered": ["one", ["path", 2]]}),
    (b"", {"backoff": [1, 5.5]}),
    (None, {"delay": 3600, "backoff": rowq.linear(2)}),
    ("", {"deadline": 7200}),
    (["follower"], {"group": "g"}),
]


def test_a_round_trip_keeps_everything(run: Run, broker: rowq.Broker, tmp_path: Path) -> None:
    for n, (payload, options) in enumerate(SENT):
        broker.send_many("q", [rowq.Draft(payload, **{**options, "headers": {"n": str(n), **options.get("headers", {})}})])
    path = str(tmp_path / "q.jsonl")
    assert run("dump", "q", path, "--json").json == {"dumped": 6, "file": path}
    assert run("load", "copy", path, "--json").json == {"loaded": 6, "known": 0}
    copies = {message.headers["n"]: message for message in broker.walk("copy")}
    originals = list(broker.walk("q"))
    assert len(originals) == len(copies) == len(SENT)
    for before in originals:
        after = copies[before.headers["n"]]
        for name in ("payload", "headers", "key", "group", "priority", "max_attempts", "backoff", "keys_if_undelivered", "state"):
            assert getattr(after, name) == getattr(before, name), name
        assert type(after.payload) is type(before.payload)
        for name in ("due_at", "deadline", "expires_at"):
            there, here = getattr(before, name), getattr(after, name)
            assert here == there or abs(here - there) < 60_000, name
        assert after.id != before.id


def test_what_is_left_of_a_ttl_is_dumped(run: Run, broker: rowq.Broker, tmp_path: Path) -> None:
    """A message that has expired must not come to life again."""
    broker.send("q", "long", ttl=3600)
    broker.send("q", "short", ttl=0.001)
    path = str(tmp_path / "q.jsonl")
    run("dump", "q", path)
    run("load", "copy", path)
    loaded = rowq.SystemClock().now()
    eventually(lambda: rowq.SystemClock().now() > loaded + 1)  # a millisecond was left of it
    assert [delivery.payload for delivery in broker.receive("copy", max=10, wait=0.05)] == ["long"]


def test_a_dead_letter_that_somebody_has_received_is_not_dumped_unless_asked_for(run: Run, broker: rowq.Broker) -> None:
    bury(broker, "poison", ttl=3600)
    broker.receive("q.dlq", lease=600)
    assert run("dump", "q").lines == []
    (line,) = run("dump", "q", "--state", "dead").lines
    assert (line["reason"], line["ttl_ms"]) == ("rejected", 3_600_000)  # whole: it is sent anew


def test_a_dump_line_tells_people_queue_state_and_attempts(run: Run) -> None:
    run("send", "q", '"é"', "--delay", "1h")
    (line,) = run("dump", "q").lines
    assert (line["queue"], line["state"], line["attempts"], line["payload"]) == ("q", "scheduled", 0, "é")
    assert 3_500_000 < line["delay_ms"] <= 3_600_000
    assert "key" not in line


def test_ids_are_kept_on_demand(run: Run, url: str, tmp_path: Path) -> None:
    id = run("send", "q", "1", "--id", "mine").out.strip()
    path = str(tmp_path / "dump")
    run("dump", "q", path)
    other = f"sqlite:///{tmp_path / 'other.db'}"
    assert run("load", "q", path, "--keep-ids", "--url", other).exit_code == 0
    assert run("get", id, "--json", "--url", other).json["payload"] == 1
    assert run("load", "q", path, "--url", other).exit_code == 0


def test_engine_ids_are_kept_too(run: Run, tmp_path: Path) -> None:
    id = run("send", "q", "1").out.strip()
    path = str(tmp_path / "dump")
    run("dump", "q", path)
    other = f"sqlite:///{tmp_path / 'other.db'}"
    run("send", "q", '"something else"', "--url", other)
    assert run("load", "q", path, "--keep-ids", "--url", other).exit_code == 0
    assert run("get", id, "--json", "--url", other).json["payload"] == 1


def test_all_queues_at_once(run: Run, tmp_path: Path) -> None:
    for n in range(6):
        run("send", "ab"[n % 2], str(n))
    path = str(tmp_path / "all")
    assert run("dump", "--file", path).out == "6 messages dumped\n"
    other = ("--url", f"sqlite:///{tmp_path / 'other.db'}")
    assert run("load", "--file", path, *other).out == "6 messages loaded\n"
    for queue, expected in (("a", [0, 2, 4]), ("b", [1, 3, 5])):
        assert [m["payload"] for m in run("browse", queue, "--json", *other).lines] == expected


def test_the_order_of_a_group_survives_while_its_head_is_leased(run: Run, tmp_path: Path) -> None:
    for n in range(3):
        run("send", "q", str(n), "--group", "g")
    run("receive", "q", "--lease", "1h")
    path = str(tmp_path / "all")
    assert run("dump", "q", path).out == "3 messages dumped\n"
    run("load", "copy", path)
    seen = [run("receive", "copy", "--ack", "--json").json["payload"] for _ in range(3)]
    assert seen == [0, 1, 2]


def test_dead_letters_are_dumped_only_when_asked_for(run: Run) -> None:
    run("send", "q", "1")
    run("reject", run("receive", "q", "--json").json["receipt"], "--reason", "why not")
    assert run("dump", "q").out == ""
    (line,) = run("dump", "q", "--state", "dead").lines
    assert (line["reason"], line["error"], line["attempts"]) == ("rejected", "why not", 1)


def test_load_reads_stdin_blank_lines_crlf_and_a_byte_order_mark(run: Run) -> None:
    data = b'\xef\xbb\xbf{"payload": 1}\r\n\n  \n{"payload": 2}'
    assert run("load", "q", stdin=data).out == "2 messages loaded\n"
    assert run("load", "q", "-", stdin=b'{"payload": 3}').out == "1 message loaded\n"
    assert payloads(run) == [1, 2, 3]


def test_raw_lines_are_payloads_and_text_lines_are_texts(run: Run) -> None:
    assert run("load", "j", "--raw", stdin=b'{"a": 1}\n"b"\n').exit_code == 0
    assert payloads(run, "j") == [{"a": 1}, "b"]
    assert run("load", "t", "--text", stdin="{ü\n\n42\r\n".encode()).exit_code == 0
    assert payloads(run, "t") == ["{ü", "", "42"]


def test_all_options_of_a_line(run: Run) -> None:
    line = {
        "payload_base64": base64.b64encode(b"\x00").decode(),
        "headers": {"h": "1"},
        "key": "k",
        "group": "g",
        "priority": 2,
        "delay_ms": 60_000,
        "ttl_ms": 120_000,
        "deadline_ms": 180_000,
        "max_attempts": 3,
        "backoff_ms": [250],
        "keys_if_undelivered": [["a", 1], "b"],
        "id": "mine",
    }
    assert run("load", "q", "--keep-ids", stdin=json.dumps(line).encode()).exit_code == 0
    message = run("get", "mine", "--json").json
    assert message["payload_base64"] == "AA=="
    assert (message["ttl_ms"], message["max_attempts"], message["priority"]) == (120_000, 3, 2)
    assert message["backoff"] == {"kind": "list", "delays_ms": [250]}
    assert message["keys_if_undelivered"] == [["a", 1], ["b"]]
    assert message["due_at"] - message["sent_at"] == 60_000


def test_a_line_may_name_its_moment(run: Run, broker: rowq.Broker) -> None:
    moment = broker.get(broker.send("q", "first", delay=3600)).due_at
    line = json.dumps({"payload": "second", "at_ms": moment})
    assert run("load", "q", stdin=line.encode()).exit_code == 0
    assert [message.due_at for message in broker.browse("q", state="scheduled")] == [moment, moment]


@pytest.mark.parametrize(
    "bad",
    [
        b"nonsense",
        b"[]",
        b"1",
        b"{}",
        b'{"payload": 1, "payload_base64": ""}',
        b'{"payload": 1, "prioriti": 2}',
        b'{"payload": 1, "priority": "2"}',
        b'{"payload_base64": "%"}',
        b'{"payload": 1, "backoff_ms": [1], "backoff": {"kind": "list"}}',
        b'{"payload": "\xff"}',
        b'{"payload": ' + b"[" * 100_000,
        b'{"payload": 1, "delay_ms": -1}',
        b'{"payload": 1, "delay_ms": 1, "at_ms": 1}',
        b'{"payload": 1, "key": ""}',
        b'{"payload": 1, "headers": {"a": 1}}',
        b'{"payload": 1, "max_attempts": -1}',
    ],
)
def test_a_bad_line_is_named_and_the_load_can_go_on(run: Run, bad: bytes, tmp_path: Path) -> None:
    """The first of them after more lines than a transaction takes, the others after a few."""
    count = 1300 if bad == b"nonsense" else 130
    good = [json.dumps({"payload": n}).encode() for n in range(count)]
    lines = [*good[: count - 98], bad, *good[count - 98 :]]
    path = tmp_path / "lines"
    path.write_bytes(b"\n".join(lines))
    run("configure", "q", "max_attempts=5")
    result = run("load", "q", str(path), "--json")
    assert result.exit_code == 2
    error = result.error
    assert error["line"] == count - 97
    assert error["error"].startswith(f"line {count - 97}: ")
    assert f"--skip {error['skip']}" in error["error"]
    assert error["loaded"] == error["skip"] == run("stats", "q", "--json").json["ready"]
    lines[count - 98] = b""
    path.write_bytes(b"\n".join(lines))
    assert run("load", "q", str(path), "--skip", str(error["skip"])).exit_code == 0
    assert [message["payload"] for message in run("dump", "q").lines] == list(range(count))


def test_a_line_without_any_queue_is_told(run: Run) -> None:
    result = run("load", stdin=b'{"queue": "a", "payload": 1}\n{"payload": 2}\n')
    assert result.exit_code == 2
    assert "line 2" in result.err
    assert run("stats", "a", "--json").json["ready"] == 1


def test_a_queue_that_fills_up_stops_the_load_honestly(run: Run) -> None:
    run("configure", "q", "max_depth=700")
    data = b"".join(b'{"payload": %d}\n' % n for n in range(1000))
    result = run("load", "q", "--json", stdin=data)
    assert result.exit_code == 1
    assert result.error["code"] == "queue_full"
    assert result.error["loaded"] == result.error["skip"] == run("stats", "q", "--json").json["ready"]


def test_skip_beyond_the_end_is_refused(run: Run) -> None:
    assert run("load", "q", "--skip", "1", stdin=b'{"payload": 1}\n').out == "0 messages loaded\n"
    assert run("load", "q", "--skip", "2", stdin=b'{"payload": 1}\n').exit_code == 2


def test_a_load_of_unknown_progress_is_repeated_by_ids(run: Run) -> None:
    data = b"".join(b'{"payload": %d, "id": "m-%d"}\n' % (n, n) for n in range(1200))
    cut = data.splitlines(keepends=True)
    assert run("load", "q", "--keep-ids", stdin=b"".join(cut[:700])).exit_code == 0
    refused = run("load", "q", "--keep-ids", "--json", stdin=data)
    assert refused.exit_code == 1
    assert refused.error["code"] == "id_taken"
    assert run("load", "q", "--keep-ids", "--skip-known", "--json", stdin=data).json == {"loaded": 500, "known": 700}
    assert [message["payload"] for message in run("dump", "q").lines] == list(range(1200))
    assert run("load", "q", "--skip-known", stdin=data).exit_code == 2
    assert run("load", "q", "--keep-ids", "--raw", stdin=b"1\n").exit_code == 2


def test_a_line_without_id_cannot_be_known(run: Run) -> None:
    result = run("load", "q", "--keep-ids", "--skip-known", stdin=b'{"payload": 1, "id": "a"}\n{"payload": 2}\n')
    assert result.exit_code == 2
    assert "line 2: it has no id" in result.err


def test_a_dump_gets_its_name_only_when_complete(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("send", "q", "1")
    path = tmp_path / "out" / "dump.jsonl"
    assert run("dump", "q", str(path)).exit_code == 2
    path.parent.mkdir()
    path.write_text("the old one")

    def broken(self: rowq.Broker, queue: Any = None, *, states: Any = None) -> Iterator[rowq.Message]:
        yield self.browse("q")[0]
        raise rowq.StoreBusy("held by somebody else")

    with monkeypatch.context() as patch:
        patch.setattr(rowq.Broker, "walk", broken)
        assert run("dump", "q", str(path)).exit_code == 4
    assert path.read_text() == "the old one"
    assert run("dump", "q", str(path)).exit_code == 0
    assert json.loads(path.read_text())["payload"] == 1
    assert [file.name for file in path.parent.iterdir()] == ["dump.jsonl"]


def test_a_file_that_cannot_be_opened_is_exit_code_2(run: Run, tmp_path: Path) -> None:
    run("configure", "q", "max_attempts=5")
    assert run("load", "q", "no-such-file").exit_code == 2
    assert run("load", "q", str(tmp_path)).exit_code == 2
    assert run("dump", "q", str(tmp_path)).exit_code == 2
    assert run("dump", "q", "one", "--file", "two").exit_code == 2


def test_a_file_name_that_is_no_text_is_told_as_well_as_can_be(run: Run, tmp_path: Path) -> None:
    run("send", "q", "1")
    path = f"{tmp_path}/\udcff.jsonl"
    assert run("dump", "q", path, "--json").json["dumped"] == 1
    assert run("load", "q", path).exit_code == 0
    assert "\\udcff" in run("load", "q", f"{path}.gone").err


def test_a_long_line_crosses_every_chunk(run: Run) -> None:
    long = "ü" * 100_000
    data = b"".join(json.dumps({"payload": text}, ensure_ascii=False).encode() + b"\n" for text in (long, "short", long))
    assert run("load", "q", stdin=data.removesuffix(b"\n")).out == "3 messages loaded\n"
    assert payloads(run) == [long, "short", long]


def test_bars_are_for_terminals(run: Run, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "lines", [{"payload": n} for n in range(10)])
    assert run("load", "q", path).err == ""
    assert "load" in run("load", "q", path, terminal=True).err
    assert run("dump", "q", str(tmp_path / "out")).err == ""
    assert "dump" in run("dump", "q", str(tmp_path / "out"), terminal=True).err
