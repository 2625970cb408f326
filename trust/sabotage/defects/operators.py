"""What operators do: redrive, purge, pause, copy, look."""

from __future__ import annotations

from trust.sabotage.defect import Defect

DEFECTS = (
    Defect(
        name="a-redrive-keeps-the-attempts",
        breaks="A redriven message is as used up as it was.",
        file="rowq/model/lifecycle.py",
        old="return Waiting(now, 0, expires_at(now, now, standing.ttl_ms, policy))",
        new="return Waiting(now, standing.attempts, expires_at(now, now, standing.ttl_ms, policy))",
        tests=("tests/contract/test_redrive.py::test_a_redriven_message_begins_anew[sqlite-sync]",),
    ),
    Defect(
        name="a-redrive-of-other-queues",
        breaks="A redrive takes a dead letter of another queue along, if it is named.",
        file="rowq/store/dead_letter.py",
        old="if one.queue != self.queue or not (",
        new="if not (",
        tests=("tests/contract/test_redrive.py::test_ids_that_are_not_dead_letters_of_the_queue_are_left_alone[sqlite-sync]",),
    ),
    Defect(
        name="a-purge-takes-what-is-at-work",
        breaks="A purge of waiting messages takes those that consumers have received meanwhile.",
        file="rowq/store/operate.py",
        old="        return hold(tx.session, seqs, state)\n",
        new="        return hold_anywhere(tx.session, seqs)\n",
        tests=("tests/store/test_removing.py::test_a_purge_leaves_what_was_received_or_sent_since_it_began[sqlite]",),
    ),
    Defect(
        name="a-purge-takes-what-a-stream-holds",
        breaks="A purge takes messages out of a batch that a stream has begun.",
        file="rowq/store/operate.py",
        old=" if one.seq not in kept]\n",
        new="]\n",
        tests=("tests/ledger/test_revoking.py::test_what_a_stream_holds_is_neither_deleted_nor_purged[sqlite]",),
    ),
    Defect(
        name="a-purge-of-the-leased-takes-the-dead",
        breaks="A dead letter that somebody has received is lost with a purge of what is leased.",
        file="rowq/store/operate.py",
        old="        return [one for one in leased if one.reason is None]\n",
        new="        return leased\n",
        tests=("tests/contract/test_purging.py::test_a_dead_letter_that_somebody_has_received_is_purged_with_the_dead[sqlite-sync]",),
    ),
    Defect(
        name="a-pause-is-ignored",
        breaks="A paused queue goes on delivering.",
        file="rowq/store/lease.py",
        old="    if policy.paused:\n        wanted, look = 0, None",
        new="    if False:\n        wanted, look = 0, None",
        tests=("tests/contract/test_pausing.py::test_a_paused_queue_hands_out_nothing[sqlite-sync]",),
    ),
    Defect(
        name="a-pause-is-ignored-at-one-stroke",
        breaks="A paused queue on PostgreSQL goes on delivering to many who ask together.",
        file="rowq/store/claim.py",
        old="policy is None or policy.paused or",
        new="policy is None or",
        tests=("tests/contract/test_pausing.py::test_a_paused_queue_hands_out_nothing_however_often_it_is_asked[postgresql-sync]",),
    ),
    Defect(
        name="the-bucket-is-never-emptied",
        breaks="A throughput limit holds back nobody.",
        file="rowq/store/lease.py",
        old="    left = tokens - handed\n",
        new="    left = tokens\n",
        tests=("tests/contract/test_throughput.py::test_no_more_than_the_limit_come_in_one_second[sqlite-sync]",),
    ),
    Defect(
        name="a-copy-leaves-the-scheduled-behind",
        breaks="A copy into another database drops the messages that are scheduled.",
        file="rowq/store/transfer/exporter.py",
        old='    "place_scheduled": State.SCHEDULED,\n',
        new="",
        tests=("tests/transfer/test_arriving.py::test_every_option_arrives[sqlite-sqlite]",),
    ),
    Defect(
        name="a-copy-begins-anew",
        breaks="A copy that was cut off brings again what had arrived.",
        file="rowq/transfer/route.py",
        old="            progress.advance(tx, self.identity, self.courses, part, reached)\n",
        new="",
        tests=("tests/transfer/test_restarting.py::test_cut_off_at_any_transaction_it_goes_on[before]",),
    ),
    Defect(
        name="cursors-of-another-state",
        breaks="A cursor of another state is taken for a place in this one.",
        file="rowq/store/row.py",
        old="    if named is not state:",
        new="    if False:",
        tests=("tests/contract/test_browsing.py::test_a_cursor_of_another_state_is_refused[sqlite-sync]",),
    ),
)
