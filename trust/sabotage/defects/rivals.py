"""Others at the same time: locks, retries, elections and shares."""

from __future__ import annotations

from trust.sabotage.defect import Defect

_TAKES_ON_POSTGRESQL = "    LIMIT :limit\n    FOR UPDATE SKIP LOCKED\n)\n\n-- fragment: first_of_share"
_TAKES_ON_MARIADB = """\
    AND (r.ranking > :ranking OR (r.ranking = :ranking AND r.position >= :position))
ORDER BY r.ranking, r.position, r.seq
LIMIT :limit
FOR UPDATE SKIP LOCKED;"""

DEFECTS = (
    Defect(
        name="waits-for-locked-rows-on-postgresql",
        breaks="A receive on PostgreSQL waits for a row that somebody else has locked, instead of taking the next.",
        file="rowq/store/sql/leasing.postgresql.sql",
        old=_TAKES_ON_POSTGRESQL,
        new=_TAKES_ON_POSTGRESQL.replace(" SKIP LOCKED", ""),
        tests=("tests/rivals/test_held_locks.py::test_a_waiting_message_that_an_application_is_replacing_is_passed_over[postgresql]",),
    ),
    Defect(
        name="waits-for-locked-rows-on-mariadb",
        breaks="A receive on MariaDB waits for a row that somebody else has locked, instead of taking the next.",
        file="rowq/store/sql/leasing.mariadb.sql",
        old=_TAKES_ON_MARIADB,
        new=_TAKES_ON_MARIADB.replace(" SKIP LOCKED", ""),
        tests=("tests/rivals/test_held_locks.py::test_a_waiting_message_that_an_application_is_replacing_is_passed_over[mariadb]",),
    ),
    Defect(
        name="takes-without-a-lock-on-postgresql",
        breaks="Two receives on PostgreSQL take the same message.",
        file="rowq/store/sql/leasing.postgresql.sql",
        old=_TAKES_ON_POSTGRESQL,
        new=_TAKES_ON_POSTGRESQL.replace("    FOR UPDATE SKIP LOCKED\n", ""),
        tests=("tests/rivals/test_processes.py::test_processes_that_start_together_handle_each_message_once[postgresql]",),
    ),
    Defect(
        name="takes-without-a-lock-on-mariadb",
        breaks="Two receives on MariaDB take the same message.",
        file="rowq/store/sql/leasing.mariadb.sql",
        old=_TAKES_ON_MARIADB,
        new=_TAKES_ON_MARIADB.replace("\nFOR UPDATE SKIP LOCKED", ""),
        tests=("tests/rivals/test_processes.py::test_processes_that_start_together_handle_each_message_once[mariadb]",),
    ),
    Defect(
        name="settles-without-a-lock",
        breaks="Two who settle the same delivery at the same moment are both told that they did it.",
        file="rowq/store/sql/settling.sql",
        old="WHERE seq IN (:seqs[])\nORDER BY seq\nFOR UPDATE;",
        new="WHERE seq IN (:seqs[])\nORDER BY seq;",
        tests=(
            "tests/rivals/test_held_locks.py::test_of_two_who_settle_one_delivery_at_the_same_time_one_is_too_late[ack_many-postgresql]",
        ),
    ),
    Defect(
        name="no-lock-on-a-new-group",
        breaks="Two senders that begin a group at the same moment both become its head.",
        file="rowq/store/locked_message.py",
        old='        session.many("reserve_group", ("queue", "group_key"), [(queue, group) for group in groups])',
        new="        pass",
        tests=(
            "tests/rivals/test_held_locks.py::test_others_send_receive_and_ack_while_an_application_holds_what_some_wait_for[group-postgresql]",
        ),
    ),
    Defect(
        name="no-lock-on-a-new-key",
        breaks="Two messages wait under one key.",
        file="rowq/store/locked_message.py",
        old='        session.many("reserve_key", ("queue", "message_key"), [(queue, key) for key in keys])',
        new="        pass",
        tests=(
            "tests/rivals/test_held_locks.py::test_others_send_receive_and_ack_while_an_application_holds_what_some_wait_for[key-postgresql]",
        ),
    ),
    Defect(
        name="sqlite-begins-by-reading",
        breaks="A transaction on SQLite begins as a reader, and fails when somebody has written before it does.",
        file="rowq/store/sqlite/dialect.py",
        old='self._control.execute("BEGIN IMMEDIATE")',
        new='self._control.execute("BEGIN")',
        tests=("tests/rivals/test_threads.py::test_threads_on_brokers_of_their_own_share_the_database[sqlite]",),
    ),
    Defect(
        name="no-found-rows",
        breaks="MariaDB counts rows that changed, so that whoever renews what it has is told that it lost it.",
        file="rowq/store/mariadb/connection.py",
        old="_FLAGS = CLIENT.FOUND_ROWS | CLIENT.MULTI_STATEMENTS",
        new="_FLAGS = CLIENT.MULTI_STATEMENTS",
        tests=("tests/contract/test_consumers.py::test_a_consumer_that_registers_is_the_youngest[mariadb-sync]",),
    ),
    Defect(
        name="everybody-has-the-duty",
        breaks="Every process believes that it has the maintenance duty.",
        file="rowq/store/sql/maintenance.sql",
        old="    AND (holder = :holder OR held_until <= :now);",
        new="    AND (holder = :holder OR held_until > 0);",
        tests=("tests/store/test_postgresql.py::test_one_process_of_several_keeps_everything_up_and_hands_over_when_it_ends",),
    ),
    Defect(
        name="deadlocks-are-told",
        breaks="A deadlock is told to the caller, though nothing stands against another try.",
        file="rowq/engine/executor.py",
        old="_MOST_TRIES = 10",
        new="_MOST_TRIES = 1",
        tests=("tests/rivals/test_crossings.py::test_processes_that_take_rows_in_opposite_order_never_hear_of_a_deadlock[mariadb]",),
    ),
    Defect(
        name="a-key-written-twice-is-an-error",
        breaks="Two who write the same key at the same moment on PostgreSQL hear of an error.",
        file="rowq/store/postgresql/errors.py",
        old='"23505": meaning.SAME_KEY,',
        new='"23505": (StoreError, "the key is taken at {where}"),',
        tests=("tests/rivals/test_agreement.py::test_an_id_that_several_bring_at_once_is_taken_by_one[postgresql]",),
    ),
    Defect(
        name="shares-overlap",
        breaks="Consumers that share a queue take each other's messages.",
        file="rowq/model/member.py",
        old="if place[2] % count == index]",
        new="if place[2] % count <= index]",
        tests=("tests/model/test_member.py::test_a_message_is_of_exactly_one_share",),
    ),
    Defect(
        name="shares-overlap-on-postgresql",
        breaks="Consumers that share a queue on PostgreSQL take each other's messages.",
        file="rowq/store/sql/leasing.postgresql.sql",
        old="WHERE seq % :count = :index",
        new="WHERE seq % :count <= :index",
        tests=("tests/contract/test_shares.py::test_as_many_as_can_be_asked_for_are_taken_in_order[postgresql-sync]",),
    ),
    Defect(
        name="the-dead-go-on",
        breaks="A consumer that was taken for dead beats on, and has a share that others have too.",
        file="rowq/store/sql/registry.sql",
        old="    AND beat_at > :cutoff;",
        new="    AND beat_at > 0;",
        tests=("tests/contract/test_consumers.py::test_whoever_is_silent_is_not_counted[sqlite-sync]",),
    ),
    Defect(
        name="sql-waits-for-locked-rows",
        breaks="A dequeue in SQL waits for a message that another transaction is taking.",
        file="rowq/store/sql/peq/verbs.sql",
        old="        FOR UPDATE OF ready SKIP LOCKED;",
        new="        FOR UPDATE OF ready;",
        tests=("tests/compat/peq/test_rivals.py::test_what_one_transaction_holds_the_others_pass_over",),
        hangs=30,
    ),
)
