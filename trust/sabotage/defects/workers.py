"""What a consumer has in flight."""

from __future__ import annotations

from trust.sabotage.defect import Defect

DEFECTS = (
    Defect(
        name="a-generator-is-taken-for-work",
        breaks="A consumer acks messages for which its function has only made a generator.",
        file="rowq/worker/plan.py",
        old="    if isgenerator(answer) or isasyncgen(answer):",
        new="    if False:",
        tests=("tests/worker/test_consuming.py::test_a_message_for_which_nothing_was_done_is_not_acked",),
    ),
    Defect(
        name="holds-what-is-lost",
        breaks="A consumer goes on believing that it has a message whose lease it lost.",
        file="rowq/worker/in_flight.py",
        old="until if outcome is Outcome.DONE else 0.0",
        new="until",
        tests=("tests/worker/test_in_flight.py::test_what_could_not_be_extended_is_lost_and_not_asked_for_again",),
    ),
    Defect(
        name="begins-what-is-anothers",
        breaks="A consumer begins with a message whose lease has expired.",
        file="rowq/worker/in_flight.py",
        old="                if self._until[delivery.receipt] > now:\n                    return delivery\n",
        new="                return delivery\n",
        tests=("tests/worker/test_in_flight.py::test_a_message_whose_lease_has_expired_is_not_begun",),
    ),
    Defect(
        name="leases-are-not-extended",
        breaks="The lease of a message that takes long to handle runs out.",
        file="rowq/worker/consumer_loop.py",
        old="receipts = self.in_flight.ending_before(began + self._lease * 2 / 3)",
        new="receipts: list[str] = []",
        tests=("tests/worker/test_consuming.py::test_a_lease_is_extended_while_the_function_runs",),
    ),
    Defect(
        name="fresh-messages-are-kept",
        breaks="A consumer that stops keeps what it has not begun until the leases run out.",
        file="rowq/worker/in_flight.py",
        old="        self._finished.released += self._fresh\n",
        new="",
        tests=("tests/worker/test_consuming.py::test_stopping_finishes_what_is_begun_and_gives_the_rest_back_uncounted",),
    ),
)
