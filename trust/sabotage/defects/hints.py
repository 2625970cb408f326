"""Short cuts: hints where to begin, which must never hide a message."""

from __future__ import annotations

from trust.sabotage.defect import Defect

DEFECTS = (
    Defect(
        name="never-back-to-the-beginning",
        breaks="A claim begins where the last one ended, and never looks at what came in before that.",
        file="rowq/store/head_hint.py",
        old="return time.perf_counter() - head.scanned_at >= pause",
        new="return False",
        tests=("tests/store/test_heads.py::test_a_scan_for_a_share_that_finds_nothing_leaves_the_scan_for_all_due",),
    ),
    Defect(
        name="a-hint-forgets-what-came-meanwhile",
        breaks="A claim that was under way moves the hint beyond what was written meanwhile.",
        file="rowq/store/head_hint.py",
        old="head.place = end if head.written is None else min(end, head.written)",
        new="head.place = end",
        tests=("tests/store/test_heads.py::test_what_is_written_while_a_claim_is_under_way_is_not_left_behind",),
    ),
    Defect(
        name="others-do-not-lower-the-hint",
        breaks="What another process has put at the head is not looked for there.",
        file="rowq/store/store.py",
        old="        self.heads.lower({topic: place for topic, (_, place) in notification.ready.items() if place is not None})\n",
        new="",
        tests=("tests/store/test_heads.py::test_what_another_process_tells_lowers_the_hint",),
    ),
    Defect(
        name="a-rollback-keeps-the-hint",
        breaks="What was claimed and rolled back stays behind the hint.",
        file="rowq/engine/executor.py",
        old="        self._store.heads.forget()\n",
        new="",
        tests=("tests/store/test_heads.py::test_a_claim_that_is_rolled_back_leaves_no_hint_behind_what_it_took[postgresql]",),
    ),
    Defect(
        name="no-floor-for-the-probe",
        breaks="A look at due times walks over all that is long gone, each time.",
        file="rowq/store/due_time.py",
        old="known.floor = max(_BEGINNING, now - _MARGIN_MS)",
        new="known.floor = _BEGINNING",
        tests=("tests/store/test_times.py::test_the_next_look_begins_shortly_before_the_last_one",),
    ),
    Defect(
        name="the-floor-never-ends",
        breaks="What was scheduled below the floor by a transaction that took long is never looked for.",
        file="rowq/store/due_time.py",
        old="if known.looked_fully_at is None or now - known.looked_fully_at >= _pause(known.took_fully_ms, FULL_LOOK_EVERY_MS):",
        new="if known.looked_fully_at is None:",
        tests=("tests/store/test_times.py::test_once_a_second_a_look_begins_at_the_beginning",),
    ),
)
