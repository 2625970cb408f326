"""Every defect on trial, a few at a time: first that its tests pass without it, then that one of them fails with it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Literal

import msgspec

from tests.support.servers.run import Run
from trust.sabotage.defect import Defect, NotThere
from trust.sabotage.scratch import SOURCE, Scratch
from trust.sabotage.trial import Court, Trial
from trust.sabotage.witness import Told

LIMIT = 180.0
"""Seconds for the tests of one defect."""
LIMIT_OF_ALL = 900.0
"""Seconds for all tests together, without any defect."""

Status = Literal["caught", "missed", "unproven", "moved"]


class Finding(msgspec.Struct, frozen=True):
    """What became of a defect: caught by a test · missed by all · unproven: its tests prove nothing · moved: its text is not there."""

    name: str
    status: Status
    seconds: float = 0.0
    test: str = ""
    why: str = ""
    """How the test failed, or why there is no proof."""


def try_all(
    defects: Sequence[Defect], *, source: Path = SOURCE, jobs: int = 2, tell: Callable[[Finding | None], None] = lambda finding: None
) -> list[Finding]:
    """In the order of the defects. `tell` hears of each as it is found, and before that, with None, that the undamaged copy is done."""
    court = Court()
    with tempfile.TemporaryDirectory(prefix="rowq-sabotage-", ignore_cleanup_errors=True) as folder, ThreadPoolExecutor(jobs) as pool:
        try:
            sound = Scratch.make(Path(folder, "sound"), source)
            tests = list(dict.fromkeys(test for defect in defects for test in defect.tests))
            without = court.hold(sound, tests, limit=LIMIT_OF_ALL, workers=jobs)
            tell(None)
            found: dict[str, Finding] = {}
            tried = [pool.submit(_try, court, sound, defect, without) for defect in defects]
            for done in as_completed(tried):
                finding = done.result()
                found[finding.name] = finding
                tell(finding)
            return [found[defect.name] for defect in defects]
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            court.close()
            Run.begin().end()  # which ends the servers of trials that were cut off


def _try(court: Court, sound: Scratch, defect: Defect, without: Trial) -> Finding:
    try:
        defect.text(sound.source)
    except NotThere as moved:
        return Finding(defect.name, "moved", why=f"{moved}")
    if why := unsound(defect, without):
        return Finding(defect.name, "unproven", why=why)
    damaged = Scratch.make(sound.folder.with_name(defect.name), sound.source)
    try:
        defect.apply(damaged.source)
        return judge(defect, court.hold(damaged, defect.tests, hangs=defect.hangs, limit=LIMIT))
    finally:
        damaged.remove()


def unsound(defect: Defect, without: Trial) -> str:
    """Why the tests of a defect would prove nothing; empty if they would."""
    own = [told for told in without.told if any(_is_of(told, test) for test in defect.tests)]
    if failed := [told for told in own if told.outcome == "failed"]:
        return f"{failed[0].test} fails without the defect: {failed[0].why}"
    if not any(told.outcome == "passed" for told in own):
        skipped = next((told.why for told in own if told.outcome == "skipped"), without.output[-500:])
        return f"none of its tests was run without the defect: {skipped}"
    return ""


def _is_of(told: Told, test: str) -> bool:
    """Whether it is the test, a case of it, or in that file or folder."""
    return told.test == test or told.test.startswith((f"{test}[", f"{test}::", f"{test.rstrip('/')}/"))


def judge(defect: Defect, trial: Trial) -> Finding:
    if trial.proof is not None:
        return Finding(defect.name, "caught", trial.seconds, trial.proof.test, trial.proof.why)
    if trial.failed:
        return Finding(defect.name, "unproven", trial.seconds, trial.failed[0].test, trial.failed[0].why)
    if not trial.has_run:
        return Finding(defect.name, "unproven", trial.seconds, why=f"the tests did not come to an end: {trial.output[-500:]}")
    return Finding(defect.name, "missed", trial.seconds)
