"""Many messages: in a few seconds, and in as much memory as a few pieces take."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from rowq import Draft
from tests.support.tables import faults_of
from tests.transfer.conftest import SOME_PAIRS, Open
from tests.transfer.journey import Journey

ROOT = Path(__file__).parents[2]
COUNT = 20_000
BODY = 3_000
SECONDS = 60.0
"""It takes about five; the rest is for a machine that has other things to do."""


@pytest.mark.prove("10 s for each pair; test_large_payloads_come_a_few_at_a_time stands for it")
@pytest.mark.parametrize("pair", SOME_PAIRS)
def test_twenty_thousand_messages_pass_in_pieces(open_journey: Open, pair: str) -> None:
    journey = open_journey(pair)
    for start in range(0, COUNT, 2_000):
        journey.source.send_many("q", [_draft(number) for number in range(start, start + 2_000)])
    started = time.monotonic()
    weights = weigh(journey)
    assert time.monotonic() - started < SECONDS
    assert journey.target.stats("q").depth == COUNT
    assert faults_of(journey.target_url) == {}
    assert len(weights) > COUNT / 500
    early = max(weights[: len(weights) // 4])
    assert max(weights) - early < COUNT * BODY / 4, "it grows with the number of messages"


@pytest.mark.one_of("pair")
@pytest.mark.parametrize("pair", SOME_PAIRS)
def test_large_payloads_come_a_few_at_a_time(open_journey: Open, pair: str) -> None:
    journey = open_journey(pair)
    journey.source.configure("q", max_payload_bytes=8 << 20, audit=False)
    for number in range(20):
        journey.source.send("q", bytes([number]) * (4 << 20))
    weights = weigh(journey)
    assert journey.target.stats("q").ready == 20
    assert max(weights) - min(weights) < 60 << 20, "of 80 MB"


def weigh(journey: Journey) -> list[int]:
    """Copies in a process of its own; how many bytes that took, transaction by transaction."""
    command = [sys.executable, "-m", "tests.transfer.moving", journey.source_url, journey.target_url, "500"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    said = [msgspec.json.decode(line) for line in done.stdout.splitlines()]
    return [words[1] for words in said if words[0] == "weighs"]


def _draft(number: int) -> Draft:
    return Draft(
        f"{number:{BODY}}",
        group=f"g{number % 200}" if number % 4 == 0 else None,
        key=f"k{number}" if number % 5 == 0 else None,
        delay=600 if number % 9 == 0 else 0,
    )
