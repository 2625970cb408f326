"""What only a real process shows: pipes that close, signals, full disks, a busy database, memory."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

import rowq
from tests.cli.driver import Spawn, told
from tests.support.life import depths

PIPE = subprocess.PIPE


def fill(broker: rowq.Broker, count: int, size: int = 10) -> None:
    for start in range(0, count, 1000):
        broker.send_many("q", [f"{n} {'x' * size}" for n in range(start, min(start + 1000, count))])


def test_a_reader_that_leaves_ends_the_dump_quietly(spawn: Spawn, broker: rowq.Broker) -> None:
    fill(broker, 5000, 200)
    process = spawn("dump", "q", stdout=PIPE, stderr=PIPE)
    assert process.stdout is not None
    assert process.stdout.readline().startswith(b"{")
    process.stdout.close()
    assert told(process) == b""
    assert process.wait(60) == 141


def test_a_reader_that_leaves_ends_the_help_quietly(spawn: Spawn, broker: rowq.Broker) -> None:
    process = spawn("--help", stdout=PIPE, stderr=PIPE)
    assert process.stdout is not None
    process.stdout.close()
    assert told(process) == b""
    assert process.wait(60) in (0, 141)


def closed_pipe() -> int:
    reading, writing = os.pipe()
    os.close(reading)
    return writing


@pytest.mark.parametrize("output", ["closed pipe", "full disk", "closed"])
def test_what_could_not_be_printed_is_not_acked(spawn: Spawn, broker: rowq.Broker, output: str) -> None:
    if output == "full disk" and not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    broker.send("q", "precious")
    if output == "closed":
        process = spawn("receive", "q", "--ack", "--json", stderr=PIPE, preexec_fn=lambda: os.close(1))
    else:
        target = closed_pipe() if output == "closed pipe" else os.open("/dev/full", os.O_WRONLY)
        process = spawn("receive", "q", "--ack", "--json", stdout=target, stderr=PIPE)
        os.close(target)
    complaint = told(process).decode()
    assert process.wait(60) == (141 if output == "closed pipe" else 1)
    assert "Traceback" not in complaint
    assert (complaint == "") if output == "closed pipe" else ("output_lost" in complaint)
    stats = broker.stats("q")
    assert stats.ready + stats.leased == 1


ANNOUNCED = """
import sys, rowq
from rowq.cli.main import main
receive = rowq.Broker.receive
def announced(*args, **options):
    print("waiting", file=sys.stderr, flush=True)
    return receive(*args, **options)
rowq.Broker.receive = announced
sys.exit(main())
"""


def test_ctrl_c_ends_a_waiting_receive_quietly(spawn: Spawn, broker: rowq.Broker) -> None:
    process = spawn("receive", "q", "--wait", "1h", code=ANNOUNCED, stdout=PIPE, stderr=PIPE)
    assert process.stderr is not None
    assert process.stderr.readline() == b"waiting\n"
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60) == (b"", b"")
    assert process.returncode == 130


def ready(broker: rowq.Broker) -> int:
    """What waits in the queue, which is not there before the first message of it."""
    return depths(broker).get("ready", 0)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline


def test_ctrl_c_during_a_load_says_how_to_go_on(spawn: Spawn, broker: rowq.Broker) -> None:
    process = spawn("load", "q", "--json", stdin=PIPE, stdout=PIPE, stderr=PIPE)
    assert process.stdin is not None
    process.stdin.writelines(b'{"payload": %d}\n' % n for n in range(1700))
    process.stdin.flush()
    until(lambda: ready(broker) >= 1000)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, b"")
    told = msgspec.json.decode(err)
    assert told["code"] == "interrupted"
    assert told["loaded"] == told["skip"] == broker.stats("q").ready
    assert f"--skip {told['skip']}" in told["error"]


def test_what_a_slow_pipe_brings_is_sent_and_settled_as_it_comes(spawn: Spawn, broker: rowq.Broker) -> None:
    load = spawn("load", "q", stdin=PIPE, stdout=PIPE)
    ack = spawn("ack", "-", stdin=PIPE, stdout=PIPE)
    assert load.stdin is not None
    assert ack.stdin is not None
    for n in range(3):
        load.stdin.write(b'{"payload": %d}\n' % n)
        load.stdin.flush()
        until(lambda: ready(broker) == 1)
        (delivery,) = broker.receive("q")
        assert delivery.payload == n
        ack.stdin.write(delivery.receipt.encode() + b"\n")
        ack.stdin.flush()
        until(lambda: broker.stats("q").leased == 0)
    assert load.communicate(timeout=60)[0] == b"3 messages loaded\n"
    assert ack.communicate(timeout=60)[0] == b"3 messages acked\n"


def test_a_load_that_was_killed_is_repeated_by_ids(spawn: Spawn, broker: rowq.Broker) -> None:
    lines = [b'{"payload": %d, "id": "m-%d"}\n' % (n, n) for n in range(3000)]
    process = spawn("load", "q", "--keep-ids", stdin=PIPE)
    assert process.stdin is not None
    process.stdin.writelines(lines[:2000])
    process.stdin.flush()
    until(lambda: ready(broker) > 0)
    process.kill()
    process.wait(60)
    again = spawn("load", "q", "--keep-ids", "--skip-known", "--json", stdin=PIPE, stdout=PIPE)
    out, _ = again.communicate(b"".join(lines), timeout=60)
    told = msgspec.json.decode(out)
    assert told["known"] > 0
    assert told["loaded"] + told["known"] == 3000
    assert [message.payload for message in broker.walk("q")] == list(range(3000))


def test_a_database_that_somebody_holds_is_exit_code_4(spawn: Spawn, broker: rowq.Broker, url: str) -> None:
    broker.send("q", 1)
    holder = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    try:
        process = spawn("send", "q", "2", "--url", f"{url}?timeout=0.2", stdout=PIPE, stderr=PIPE)
        out, err = process.communicate(timeout=60)
    finally:
        holder.rollback()
        holder.close()
    assert process.returncode == 4, err
    assert b"[store_busy]" in err
    assert (out, broker.stats("q").ready) == (b"", 1)


MEASURED = """
import resource, sys
from rowq.cli.main import main
code = main(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
sys.exit(code)
"""


def most_memory_kb(spawn: Spawn, *args: str) -> int:
    process = spawn(*args, code=MEASURED, stdout=subprocess.DEVNULL, stderr=PIPE)
    measured = told(process)
    assert process.wait(300) == 0, measured
    return int(measured)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("count", "size"),
    [
        (100, 8_000),
        pytest.param(
            1_000, 100, marks=pytest.mark.prove("20 s for 100,000 messages; 10,000 of 8 kB, twice what they may take, stand for it")
        ),
    ],
)
def test_a_hundred_times_more_messages_take_no_more_memory(spawn: Spawn, tmp_path: Path, url: str, count: int, size: int) -> None:
    few, many = tmp_path / "few", tmp_path / "many"
    for path, times in ((few, 1), (many, 100)):
        with path.open("w") as lines:
            lines.writelines(f'{{"payload": {{"n": {n}, "text": "{"x" * size}"}}}}\n' for n in range(times * count))
    little = most_memory_kb(spawn, "load", "few", str(few))
    assert most_memory_kb(spawn, "load", "many", str(many)) < little + 40_000
    little = most_memory_kb(spawn, "dump", "few", str(tmp_path / "out"))
    assert most_memory_kb(spawn, "dump", "many", str(tmp_path / "out")) < little + 40_000
    with (tmp_path / "out").open() as lines:
        assert sum(1 for _ in lines) == 100 * count
