"""One run on one database: everybody works, everything fails, all is healed, what is left is drained, and the checker has the word."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.support.patience import eventually
from trust.torture.cast import ROLES
from trust.torture.checker import Verdict, check
from trust.torture.director import Director
from trust.torture.plan import plan
from trust.torture.report import Report
from trust.torture.scene import Scene, opened

_EVERY = 0.2
_DRAINED = 180.0
"""Seconds until all that is left must be settled."""
_MOST_FAILURES = 5


@dataclass(frozen=True)
class Goals:
    operations: int
    faults: int
    seconds: float
    """Beyond which nobody waits for the other two."""


@dataclass
class _Play:
    """What the run itself has seen, beside what the checker finds."""

    struck: Counter[str]
    violations: list[str]
    seconds: float


def run(kind: str, seed: int, goals: Goals, folder: Path, advance: Callable[[int], None]) -> Report:
    started = time.monotonic()
    with opened(kind, folder, seed) as scene:
        skipped = [] if scene.database.disk else ["disk full: a file system of its own needs root"]
        played = _play(scene, seed, goals, advance)
        played.violations += _drain(scene)
        drained = time.monotonic()
        verdict = check(folder, scene.database.url) if not played.violations else _checked(folder, scene.database.url, played)
    return Report(
        database=kind,
        seed=seed,
        seconds=round(played.seconds, 1),
        seconds_in_all=round(time.monotonic() - started, 1),
        seconds_of_checking=round(time.monotonic() - drained, 1),
        operations={f"{way} {verb}": count for (way, verb), count in sorted(verdict.operations.items())},
        messages=verdict.messages,
        errors=dict(verdict.errors.most_common()),
        faults=dict(sorted(played.struck.items())),
        checked=dict(verdict.checked),
        violations=played.violations + verdict.violations,
        missed=missed(goals, verdict, played.struck),
        skipped=skipped,
        folder=str(folder),
    )


def _checked(folder: Path, url: str, played: _Play) -> Verdict:
    """What went wrong already is told also when the checker stumbles over it."""
    try:
        return check(folder, url)
    except Exception as error:
        played.violations.append(f"the checker could not finish: {error!r}")
        return Verdict()


def _play(scene: Scene, seed: int, goals: Goals, advance: Callable[[int], None]) -> _Play:
    director = Director(scene, plan(scene.kind, seed, goals.faults, has_disk=scene.database.disk is not None), seed)
    violations: list[str] = []
    scene.cast.await_begun()
    started = time.monotonic()
    try:
        while (passed := time.monotonic() - started) < goals.seconds and len(violations) + len(director.failures) < _MOST_FAILURES:
            operations = scene.cast.operations()
            advance(operations)
            director.keep_up(max(operations / goals.operations, passed / goals.seconds))
            violations += director.look_for_ended()
            if operations >= goals.operations and director.done >= goals.faults:
                break
            scene.hold(_EVERY)
    except BaseException:
        scene.is_over.set()
        raise
    finally:
        director.finish()
    return _Play(director.struck, violations + director.failures, time.monotonic() - started)


def _drain(scene: Scene) -> list[str]:
    """Nobody sends any more, and everything fails no more: it must come to an end, and everybody leave in good order."""
    scene.heal()
    wrong = scene.cast.end("producer", "operator")
    scene.heal()
    scene.cast.drain()
    try:
        eventually(lambda: not scene.depths(), _DRAINED)
    except AssertionError:
        wrong.append(f"not drained within {_DRAINED:.0f} s: {scene.depths()}")
    wrong += scene.cast.end(*ROLES)
    wrong += scene.close_servers()
    return wrong + scene.complaints()


def missed(goals: Goals, verdict: Verdict, struck: Counter[str]) -> list[str]:
    reached = {"operations": (verdict.operations.total(), goals.operations), "faults": (struck.total(), goals.faults)}
    return [f"{done:,} of {goal:,} {what}" for what, (done, goal) in reached.items() if done < goal]
