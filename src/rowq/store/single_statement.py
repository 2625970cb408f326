"""One stroke: a batch that a single statement can do needs no transaction around it, and no second way to the database and back.

That is most receives and most acks under load. Whatever is out of the ordinary, or due from time to time (settings to look at
again, messages that fall due), is left to the long way, which does all of it.
"""

from __future__ import annotations

from rowq.ids import Receipt
from rowq.model.lifecycle import Ack
from rowq.model.message import Outcome
from rowq.model.queue import Policy
from rowq.store.call import Receive, Settle
from rowq.store.policy import Policies


def may_receive(policies: Policies, calls: list[Receive]) -> Policy | None:
    """The policy of the one queue that all of them ask, where nothing has to be looked at before its messages are leased."""
    first = calls[0]
    if first.from_dead or (first.share and len(calls) > 1):
        return None
    if any(call.topic != first.topic or call.delivery != first.delivery or call.share for call in calls[1:]):
        return None
    policy = policies.remembered(first.queue)
    if policy is None or policy.paused or policy.throughput_limit or (first.delivery or policy.delivery) == "at_most_once":
        return None
    return policy


def may_ack(policies: Policies, calls: list[Settle]) -> bool:
    """Whether one statement can ack something of all of them."""
    actor = calls[0].actor
    return bool(policies.keeping_nothing()[0]) and all(
        isinstance(call.settlement, Ack) and call.reaches is None and call.actor == actor for call in calls
    )


def share_out(calls: list[Settle], done: set[Receipt]) -> bool:
    """Gives each call what was acked for it, once. True when that is all of them; what is left is looked at the long way."""
    for call in calls:
        call.done.update(done.intersection(call.receipts))
        done -= call.done
        if len(call.done) == len(call.receipts):
            call.result = [Outcome.DONE] * len(call.receipts)
    return all(call.result is not None for call in calls)
