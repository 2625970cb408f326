"""Who holds a message, until when, and who may settle it."""

from __future__ import annotations

from trust.sabotage.defect import Defect

DEFECTS = (
    Defect(
        name="ack-without-the-token",
        breaks="A receipt of an earlier delivery acks the message that somebody else has now.",
        file="rowq/store/settle.py",
        old=(
            "if row is None or row[LeasedRow.TOKEN] != token or not _is_reached(call, row):\n"
            "                outcomes.append(_refused(call, row, seq, missing))\n"
            "                continue"
        ),
        new=(
            "if row is None or not _is_reached(call, row):\n"
            "                outcomes.append(_refused(call, row, seq, missing))\n"
            "                continue"
        ),
        tests=("tests/contract/test_fencing.py::test_a_stale_receipt_settles_nothing[sqlite-sync-ack]",),
    ),
    Defect(
        name="a-lone-ack-without-the-token",
        breaks="A receipt of an earlier delivery, acked alone on SQLite, acks the message that another consumer has now.",
        file="rowq/store/sqlite/lone.py",
        old="if held != token or has_extras",
        new="if has_extras",
        tests=("tests/store/test_lone.py::test_both_ways_leave_the_same[with_a_lease_of_its_own-True]",),
    ),
    Defect(
        name="a-lone-ack-of-a-kept-message",
        breaks="A message whose outcome is to be kept, acked alone on SQLite, leaves nothing.",
        file="rowq/store/sqlite/lone.py",
        old='policy is None or policy.keep != "none"',
        new="policy is None",
        tests=("tests/store/test_lone.py::test_both_ways_leave_the_same[kept-True]",),
    ),
    Defect(
        name="a-lone-receive-of-an-expired-message",
        breaks="A message past its TTL, received alone on SQLite, is delivered.",
        file="rowq/store/sqlite/lone.py",
        old="if marks or expires_at is not None or error",
        new="if marks or error",
        tests=("tests/store/test_lone.py::test_both_ways_leave_the_same[with_every_option-True]",),
    ),
    Defect(
        name="a-lone-receive-is-not-looked-after",
        breaks="The end of a lease of a message received alone on SQLite is not remembered: the message returns late.",
        file="rowq/store/sqlite/lone.py",
        old="        store.times.falls_due(call.topic, until)\n",
        new="",
        tests=("tests/store/test_lone.py::test_the_end_of_a_lease_is_remembered",),
    ),
    Defect(
        name="settle-without-the-token",
        breaks="A receipt of an earlier delivery nacks, rejects or extends what somebody else has now.",
        file="rowq/store/settle.py",
        old=(
            "if row is None or row[LeasedRow.TOKEN] != token or not _is_reached(call, row):\n"
            "            outcomes.append(_refused(call, row, seq, missing))\n"
            "        else:"
        ),
        new=(
            "if row is None or not _is_reached(call, row):\n            outcomes.append(_refused(call, row, seq, missing))\n        else:"
        ),
        tests=("tests/contract/test_fencing.py::test_a_stale_receipt_settles_nothing[sqlite-sync-nack]",),
    ),
    Defect(
        name="ack-without-the-token-on-postgresql",
        breaks="The one statement that acks on PostgreSQL looks at the message, and not at whose lease it is.",
        file="rowq/store/sql/settling.postgresql.sql",
        old="            AND rowq_leased.token = given.token\n",
        new="",
        tests=("tests/contract/test_fencing.py::test_a_stale_receipt_acks_nothing_where_others_were_just_acked[postgresql-sync]",),
    ),
    Defect(
        name="a-receipt-settles-twice",
        breaks="Two verdicts about one delivery that arrive together are both carried out.",
        file="rowq/store/settle.py",
        old="    del leased[seq]  # a second settlement in this batch is too late\n    conclude(",
        new="    conclude(",
        tests=("tests/contract/test_settling_many.py::test_a_delivery_named_twice_is_settled_once[sqlite-sync]",),
    ),
    Defect(
        name="an-ack-counts-twice",
        breaks="Two acks of one delivery that arrive together are both told that they did it.",
        file="rowq/store/settle.py",
        old="            del leased[seq]  # a second settlement in this batch is too late\n            if row[LeasedRow.HAS_EXTRAS]",
        new="            if row[LeasedRow.HAS_EXTRAS]",
        tests=("tests/store/test_batches.py::test_the_second_settle_of_one_batch_comes_too_late",),
    ),
    Defect(
        name="tokens-are-counted",
        breaks="Lease tokens are counted, so that after a power cut an old receipt fits a new lease.",
        file="rowq/ids.py",
        old='fresh = [bits >> 1 for bits in struct.unpack(f"{drawn}Q", os.urandom(8 * drawn))]',
        new="fresh = list(range(1, drawn + 1))",
        tests=("tests/model/test_ids.py::test_tokens_are_63_random_bits",),
    ),
    Defect(
        name="a-lease-lasts-a-moment-too-long",
        breaks="A lease that ends now is not over yet.",
        file="rowq/store/sql/leasing.sql",
        old="    AND lease_until <= :now\n",
        new="    AND lease_until < :now\n",
        tests=("tests/contract/test_bounds.py::test_a_message_is_free_in_the_moment_its_lease_ends[sqlite-sync]",),
    ),
    Defect(
        name="a-lease-lasts-a-moment-too-long-on-mariadb",
        breaks="A lease that ends now is not over yet.",
        file="rowq/store/sql/leasing.mariadb.sql",
        old="    AND lease_until <= :now\n",
        new="    AND lease_until < :now\n",
        tests=("tests/contract/test_bounds.py::test_a_message_is_free_in_the_moment_its_lease_ends[mariadb-sync]",),
    ),
    Defect(
        name="extend-writes-nothing",
        breaks="An extension is answered and not written.",
        file="rowq/store/settle.py",
        old='    tx.session.write("extend_lease", lease_until=until, seq=held.seq)\n',
        new="",
        tests=("tests/contract/test_leases.py::test_a_late_extend_holds_the_message_again[sqlite-sync]",),
    ),
    Defect(
        name="extend-goes-past-the-deadline",
        breaks="An extension reaches beyond the deadline, where others may take over.",
        file="rowq/store/settle.py",
        old="deadline = held.deadline if held.reason is None else None",
        new="deadline = None",
        tests=("tests/contract/test_bounds.py::test_no_lease_goes_beyond_the_deadline_nor_does_an_extension[sqlite-sync]",),
    ),
    Defect(
        name="no-grace-for-the-late",
        breaks="Maintenance takes a message from a consumer that is a little late.",
        file="rowq/store/expiry.py",
        old="LATE_MS = 1_000",
        new="LATE_MS = 0",
        tests=("tests/contract/test_leases.py::test_maintenance_leaves_a_second_for_the_late[sqlite-sync]",),
    ),
    Defect(
        name="old-answers-are-handed-out",
        breaks="Whoever was stopped for longer than its lease believes that it holds what is another's by now.",
        file="rowq/engine/group_commit.py",
        old="if call.good_until is not None and running() > call.good_until:",
        new="if False:",
        tests=("tests/disasters/test_stopped_processes.py::test_an_expired_lease_is_never_given_to_the_caller[postgresql]",),
    ),
    Defect(
        name="at-most-once-comes-again",
        breaks="A message that may be delivered once comes again when its lease runs out.",
        file="rowq/model/lifecycle.py",
        old='if standing.reason is None and policy.delivery == "at_most_once":',
        new="if False:",
        tests=("tests/contract/test_deadlines.py::test_a_crash_is_not_retried_at_most_once[sqlite-sync]",),
    ),
    Defect(
        name="at-most-once-is-given-back",
        breaks="A message that may be delivered once goes back to its queue when its receiver has gone away.",
        file="rowq/store/settle.py",
        old='good = [call for call in calls if (call.delivery or tx.policy(call.queue).delivery) != "at_most_once"]',
        new="good = calls",
        tests=("tests/engine/test_releasing.py::test_what_is_delivered_at_most_once_is_not_given_back",),
    ),
    Defect(
        name="one-attempt-too-many",
        breaks="A message is delivered once more than its limit says.",
        file="rowq/model/lifecycle.py",
        old="return 0 < most_attempts(standing.max_attempts, standing.backoff, policy) <= attempts",
        new="return 0 < most_attempts(standing.max_attempts, standing.backoff, policy) < attempts",
        tests=("tests/contract/test_attempts.py::test_five_deliveries_are_the_default[sqlite-sync]",),
    ),
    Defect(
        name="a-release-counts",
        breaks="A message that was given back unread has used up an attempt.",
        file="rowq/model/lifecycle.py",
        old="attempts = standing.attempts if counts else standing.attempts - 1",
        new="attempts = standing.attempts",
        tests=("tests/contract/test_attempts.py::test_a_released_delivery_does_not_count[sqlite-sync]",),
    ),
)
