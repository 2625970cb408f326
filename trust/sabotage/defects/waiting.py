"""Consumers that wait, and those who wake them."""

from __future__ import annotations

from trust.sabotage.defect import Defect

DEFECTS = (
    Defect(
        name="looks-before-entering",
        breaks="A wake-up between looking and waiting is lost.",
        file="rowq/engine/verbs.py",
        old=(
            "            ticket = yield Enter(attempt.topic)\n"
            "            has_waited = has_looked = False\n"
            "            try:\n"
            "                rows = yield attempt\n"
        ),
        new=(
            "            rows = yield attempt\n"
            "            ticket = yield Enter(attempt.topic)\n"
            "            has_waited = has_looked = False\n"
            "            try:\n"
        ),
        tests=("tests/engine/test_waking.py::test_a_send_after_any_step_of_a_receive_is_noticed_at_once",),
    ),
    Defect(
        name="a-wake-up-goes-with-the-cancelled",
        breaks="A wake-up is lost with the receiver that was cancelled.",
        file="rowq/engine/verbs.py",
        old="is_unused = not has_looked or (ticket.waiter.is_woken and not has_waited)",
        new="is_unused = False",
        tests=("tests/engine/test_waking.py::test_whoever_goes_away_woken_wakes_the_next",),
    ),
    Defect(
        name="nobody-wakes-the-next",
        breaks="Whoever leaves with all it wanted does not wake the next, for whom there is more.",
        file="rowq/engine/waiting.py",
        old="        if more:\n            self.wake",
        new="        if False:\n            self.wake",
        tests=("tests/engine/test_waiting_room.py::test_who_leaves_with_more_behind_wakes_the_next",),
    ),
    Defect(
        name="wakes-before-the-commit",
        breaks="Those who wait are woken before there is anything to see.",
        file="rowq/engine/executor.py",
        old=(
            "                self._carry_out(tx, batch)\n"
            "        except _MustSync:\n"
            "            self._perform_together(batch, durable=True)\n"
            "            return\n"
            "        self._finish(tx, batch, began, durable=durable)"
        ),
        new=(
            "                self._carry_out(tx, batch)\n"
            "                self._finish(tx, batch, began, durable=durable)\n"
            "        except _MustSync:\n"
            "            self._perform_together(batch, durable=True)\n"
            "            return"
        ),
        tests=("tests/engine/test_waking.py::test_nobody_is_told_of_what_is_not_there_to_see_yet",),
    ),
    Defect(
        name="the-herald-tells-nobody",
        breaks="Other processes on PostgreSQL hear of a send only when they look by themselves.",
        file="rowq/engine/engine.py",
        old="            self._notifier.tell(notification)",
        new="            pass",
        tests=("tests/rivals/test_waiting.py::test_a_consumer_in_another_process_hears_of_a_send[postgresql]",),
    ),
    Defect(
        name="the-herald-wakes-nobody",
        breaks="What another process tells wakes nobody.",
        file="rowq/engine/engine.py",
        old=(
            "        self.store.hear(notification)\n"
            "        self._room.wake({topic: count for topic, (count, _) in notification.ready.items()})"
        ),
        new="        self.store.hear(notification)",
        tests=("tests/rivals/test_waiting.py::test_a_consumer_in_another_process_hears_of_a_send[postgresql]",),
    ),
    Defect(
        name="no-news-from-other-processes",
        breaks="A consumer on SQLite hears of another process's send only by its safety net.",
        file="rowq/engine/engine.py",
        old="if news is None or news == self._news:",
        new="if True:",
        tests=("tests/rivals/test_waiting.py::test_a_consumer_in_another_process_hears_of_a_send[sqlite]",),
    ),
    Defect(
        name="the-turn-is-not-handed-on",
        breaks="Threads that wait for the writer's place are not told that it is free.",
        file="rowq/engine/group_commit.py",
        old="            if heir is not None and heir.gate.locked():\n                heir.gate.release()",
        new="            pass",
        tests=("tests/engine/test_group_commit.py::test_the_turn_is_handed_on_without_anybody_looking_up",),
    ),
)
