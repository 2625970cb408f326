"""What may be sent, and in which order it comes."""

from __future__ import annotations

from trust.sabotage.defect import Defect

DEFECTS = (
    Defect(
        name="a-lone-send-does-not-ask-its-queue",
        breaks="A message sent alone on SQLite enters a queue that has no room for it.",
        file="rowq/store/policy.py",
        old="if policy.schema is not None or policy.max_depth or policy.ttl_ms",
        new="if policy.schema is not None or policy.ttl_ms",
        tests=("tests/store/test_lone.py::test_both_ways_leave_the_same[limited-True]",),
    ),
    Defect(
        name="seqs-are-drawn-from-memory",
        breaks="A process on SQLite goes on from the seq that it drew last, whatever others have drawn since.",
        file="rowq/store/sql/sending.sqlite.sql",
        old="    AND value = :known;",
        new="    AND :known = :known;",
        tests=("tests/store/test_lone.py::test_two_processes_never_draw_the_same_seq",),
    ),
    Defect(
        name="requests-are-not-remembered",
        breaks="A send that is asked again is carried out again.",
        file="rowq/store/request.py",
        old='self._tx.session.write("insert_request", id=id,',
        new="dict(id=id,",
        tests=("tests/server/test_together.py::test_the_answer_to_a_request_is_kept_for_an_hour",),
    ),
    Defect(
        name="requests-of-others",
        breaks="One caller's idempotency key answers for another's.",
        file="rowq/store/request.py",
        old="return f\"{call.queue}/{call.actor or ''}/{call.request}\"",
        new='return f"{call.queue}/{call.request}"',
        tests=("tests/server/test_reviewed.py::test_an_idempotency_key_is_its_callers_own_and_stands_for_all_that_was_said",),
    ),
    Defect(
        name="a-request-for-something-else",
        breaks="An idempotency key that comes with other messages gets the answer of the first.",
        file="rowq/store/request.py",
        old="            if fingerprint != _fingerprint(call):",
        new="            if False:",
        tests=("tests/server/test_reviewed.py::test_an_idempotency_key_is_its_callers_own_and_stands_for_all_that_was_said",),
    ),
    Defect(
        name="limits-count-characters",
        breaks="The limit of a payload counts characters, and not bytes.",
        file="rowq/store/send.py",
        old="            if len(message.payload) > limit:",
        new='            if len(message.payload.decode(errors="ignore")) > limit:',
        tests=("tests/contract/test_payload_rules.py::test_a_payload_over_the_limit_is_refused[sqlite-sync-umlauts]",),
    ),
    Defect(
        name="one-too-many-in-a-full-queue",
        breaks="A queue takes one message more than max_depth.",
        file="rowq/store/send.py",
        old="if wanted and known.depth_bound + wanted > limit:",
        new="if wanted and known.depth_bound + wanted > limit + 1:",
        tests=("tests/contract/test_depth.py::test_a_queue_takes_as_many_as_max_depth[sqlite-sync]",),
    ),
    Defect(
        name="an-id-is-taken-twice",
        breaks="Two messages have the same id.",
        file="rowq/store/send.py",
        old="                self._check_own_ids(call)",
        new="                pass",
        tests=("tests/contract/test_ids.py::test_an_own_id_is_taken_while_its_message_is_known[sqlite-sync]",),
    ),
    Defect(
        name="a-key-is-freed-for-another",
        breaks="A message that leaves frees the key that its successor holds.",
        file="rowq/store/sql/sending.sql",
        old="    AND message_key = :message_key\n    AND seq = :seq;",
        new="    AND message_key = :message_key\n    AND seq >= :seq;",
        tests=(
            "tests/contract/test_key_successors.py::test_the_successor_is_what_is_replaced[sqlite-sync]",
            "tests/contract/test_key_successors.py::test_the_ack_of_the_older_leaves_the_successor[sqlite-sync]",
        ),
    ),
    Defect(
        name="priorities-are-ignored",
        breaks="Messages come in the order of sending, whatever their priority.",
        file="rowq/store/sql/leasing.sql",
        old="WHERE r.queue = :queue\nORDER BY r.ranking, r.position, r.seq",
        new="WHERE r.queue = :queue\nORDER BY r.position, r.seq",
        tests=("tests/contract/test_priorities.py::test_higher_priority_comes_first[sqlite-sync]",),
    ),
    Defect(
        name="a-group-is-not-held",
        breaks="A message goes to a consumer while the one before it in its group is still at work.",
        file="rowq/store/send.py",
        old="        if (queue, group) in self._taken:\n            return False",
        new="        if False:\n            return False",
        tests=("tests/contract/test_groups.py::test_only_the_head_of_a_group_is_delivered[sqlite-sync]",),
    ),
    Defect(
        name="a-group-is-never-called-up",
        breaks="When the head of a group is done, nobody follows.",
        file="rowq/store/groups.py",
        old="    if not tx.leaving and not tx.returning:\n        return",
        new="    if True:\n        return",
        tests=("tests/contract/test_groups.py::test_the_next_goes_when_the_head_is_acked[sqlite-sync]",),
    ),
)
