"""The short form of the search, and all that it ever found."""

from __future__ import annotations

import time
from itertools import islice
from pathlib import Path
from random import Random

import pytest

from tests.fuzz.corpus import FOLDER, keep, kept
from tests.fuzz.mutation import inputs, smallest
from tests.fuzz.target import Target, TooSlow, quickly
from tests.fuzz.targets import TARGETS

LEAST = 40
"""Inputs that a target is given in any case: in `make test` the same ones every time."""
SECONDS = 0.25
"""Of computing, for which the search for new inputs goes on."""
SHORT, LONG = 3_000, 30_000
REPEATED = (b"\0", b"\xff", b"\n", b"%00", b"9", b"[", b'{"a":', b"(", b"- ", b"a.", b"/", b"1,", b"=&", b"* ", b'"', b"\xf0\x9f\x90\x87")

every_target = pytest.mark.parametrize("name", TARGETS)


@every_target
def test_sound_input_is_taken(name: str) -> None:
    for seed in TARGETS[name].seeds:
        TARGETS[name].check(seed)


@pytest.mark.parametrize(("name", "path"), [pytest.param(name, path, id=f"{name}-{path.name}") for name in TARGETS for path in kept(name)])
def test_what_failed_once_does_so_no_more(name: str, path: Path) -> None:
    TARGETS[name].check(path.read_bytes())


def test_every_kept_input_is_of_a_target() -> None:
    assert {folder.name for folder in FOLDER.iterdir()} <= set(TARGETS)


@every_target
def test_nothing_breaks_it(name: str) -> None:
    _search(TARGETS[name], FOLDER, Random(name), seconds=0)


@pytest.mark.prove("other inputs every time, for 15 s of computing; test_nothing_breaks_it stands for it, with the same ones")
@every_target
def test_nothing_new_breaks_it(name: str) -> None:
    _search(TARGETS[name], FOLDER, Random(), SECONDS)


@pytest.mark.parametrize(
    "most", [SHORT, pytest.param(LONG, marks=pytest.mark.prove("10 s of computing; a tenth of the length stands for it"))]
)
@every_target
def test_long_and_hostile_input_is_answered_quickly(name: str, most: int) -> None:
    target = TARGETS[name]
    length = most if name not in ("http1", "http2") else most // 10
    for piece in (*REPEATED, *target.seeds):
        target.check(piece * (length // len(piece)) if piece else b"")
        target.check(target.seeds[0] + piece * (length // 2 // max(1, len(piece))))


def _search(target: Target, folder: Path, random: Random, seconds: float) -> None:
    """What breaks it is kept."""
    until = time.thread_time() + seconds
    for number, data in enumerate(inputs(target.seeds, random)):
        if number >= LEAST and time.thread_time() > until:
            break
        if _fails(target, data):
            found = smallest(data, lambda data: _fails(target, data))
            keep(target.name, found, folder)
            target.check(found)


def _fails(target: Target, data: bytes) -> bool:
    try:
        target.check(data)
    except Exception:
        return True
    return False


def test_a_target_that_breaks_is_found_out_and_the_smallest_input_that_breaks_it_is_kept(tmp_path: Path) -> None:
    def run(data: bytes) -> None:
        if data.count(b"9") > 2:
            raise LookupError

    with pytest.raises(LookupError):
        _search(Target("nines", run, (b"text", b"number")), tmp_path, Random(1), seconds=60)
    (path,) = kept("nines", tmp_path)
    assert path.read_bytes() == b"999"


def test_slowness_is_found_out() -> None:
    with pytest.raises(TooSlow), quickly(0.01):
        sum(range(3_000_000))


def test_input_is_changed_and_not_only_repeated() -> None:
    found = set(islice(inputs((b"a sound seed",), Random(1)), 200))
    assert len(found) > 150 and any(b"sound" in each for each in found)
