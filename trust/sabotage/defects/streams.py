"""Batches of streams, sinks and the archive."""

from __future__ import annotations

from trust.sabotage.defect import Defect

DEFECTS = (
    Defect(
        name="a-gap-is-filled-unseen",
        breaks="A stream goes on, on a restored log that has other lines where its checkpoint knows of none.",
        file="rowq/spark/reader.py",
        old="            if now is not None and now != then and (then is None or now[0] >= then[0]):",
        new="            if now is not None and now != then and then is not None and now[0] == then[0]:",
        tests=("tests/spark/test_log.py::test_lines_that_a_restored_database_has_put_into_a_gap_are_noticed",),
    ),
    Defect(
        name="a-batch-is-given-anew",
        breaks="A batch that is asked for again is another one.",
        file="rowq/store/stream/ledger.py",
        old="    if known is None and _lease_batch(tx, stream, most, most_bytes):",
        new="    if _lease_batch(tx, stream, most, most_bytes):",
        tests=("tests/ledger/test_batches.py::test_a_batch_is_given_again_until_it_is_settled[sqlite]",),
    ),
    Defect(
        name="two-hold-a-stream",
        breaks="A query that was replaced goes on beside its successor.",
        file="rowq/model/stream.py",
        old="        if epoch != self.epoch:",
        new="        if False:",
        tests=("tests/ledger/test_batches.py::test_a_second_claim_ends_the_first[sqlite]",),
    ),
    Defect(
        name="an-old-checkpoint-goes-on",
        breaks="A query with an old copy of its checkpoint reads what was settled long ago as if it were new.",
        file="rowq/model/stream.py",
        old="        if after < self.acked_batch:",
        new="        if False:",
        tests=("tests/ledger/test_batches.py::test_a_checkpoint_that_is_behind_the_ledger_is_refused[sqlite]",),
    ),
    Defect(
        name="a-batch-is-settled-before-its-checkpoint",
        breaks="The batch that is asked for is settled with those before it.",
        file="rowq/store/stream/ledger.py",
        old="    _ack(tx, stream, after)\n    number",
        new="    _ack(tx, stream, stream.next_batch - 1)\n    number",
        tests=("tests/ledger/test_batches.py::test_a_batch_is_given_again_until_it_is_settled[sqlite]",),
    ),
    Defect(
        name="a-sink-publishes-twice",
        breaks="A batch that a sink writes again is published again.",
        file="rowq/store/stream/stage.py",
        old="    if is_new:\n        _publish_all",
        new="    if True:\n        _publish_all",
        tests=("tests/tables/test_publishing.py::test_a_version_is_published_once[sqlite]",),
    ),
    Defect(
        name="half-a-batch-is-published",
        breaks="What is left of a stage that was lost in part is published.",
        file="rowq/store/stream/stage.py",
        old="        _check_whole(tx, dict(stages))\n",
        new="",
        tests=("tests/tables/test_publishing.py::test_what_nobody_asks_for_again_is_published_and_not_remembered[sqlite]",),
    ),
    Defect(
        name="an-archive-is-not-verified",
        breaks="An archive believes that all lines have arrived, and deletes them.",
        file="rowq/spark/pipeline/archiving.py",
        old="files = self.verify(kind, segment, piece)",
        new="files = self.lake.written(kind, piece)",
        tests=("tests/pipeline/test_archive.py::test_lines_that_did_not_arrive_are_told_and_nothing_is_purged",),
    ),
    Defect(
        name="purged-before-it-is-committed",
        breaks="Lines are deleted from the database before the lake has them.",
        file="rowq/spark/pipeline/archiving.py",
        old='if segment.state == "committed" and (segment.committed_at or 0) <= cutoff:',
        new='if segment.state != "purged" and (segment.committed_at or 0) <= cutoff:',
        tests=("tests/pipeline/test_archive.py::test_a_segment_that_is_only_planned_is_not_purged",),
    ),
    Defect(
        name="a-log-ends-too-late",
        breaks="Who follows the log on PostgreSQL passes by lines that others are still writing.",
        file="rowq/store/postgresql/watermark.py",
        old="            if not mark.writers:",
        new="            if True:",
        tests=("tests/tables/test_watermark.py::test_nothing_above_an_open_transaction_appears_and_nothing_of_it_is_missed[postgresql]",),
    ),
)
