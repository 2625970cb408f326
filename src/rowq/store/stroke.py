"""One stroke: a batch that a single statement can do needs no transaction around it, and no second way to the database and back.

That is most receives and most acks under load. Whatever is out of the ordinary, or due from time to time (settings to look at
again, messages that fall due), is left to the long way, which does all of it.
"""

from __future__ import annotations

from rowq.model.lifecycle import Ack
from rowq.model.message import Outcome
from rowq.model.queue import Policy
from rowq.store import claiming
from rowq.store.calls import Receive, Settle
from rowq.store.dialect import Acks
from rowq.store.policies import Policies
from rowq.store.work import Work


def may_receive(policies: Policies, calls: list[Receive]) -> Policy | None:
    """The policy of the one queue that all of them ask, where nothing has to be looked at before its messages are leased."""
    first = calls[0]
    if first.from_dead or any(call.topic != first.topic or call.delivery != first.delivery for call in calls[1:]):
        return None
    policy = policies.remembered(first.queue)
    if policy is None or policy.paused or policy.throughput_limit or (first.delivery or policy.delivery) == "at_most_once":
        return None
    return policy


def receive(work: Work, calls: list[Receive], policy: Policy) -> bool:
    """False when a message that has an end of its own is among them: then nothing was leased."""
    return claiming.claim_all_or_none(work, calls[0].queue, calls, policy)


def may_ack(policies: Policies, calls: list[Settle]) -> bool:
    actor = calls[0].actor
    return bool(policies.keeping_nothing()[0]) and all(
        isinstance(call.verdict, Ack) and call.reaches is None and call.actor == actor for call in calls
    )


def ack(work: Work, calls: list[Settle]) -> list[tuple[Settle, Settle]]:
    """Acks what it can. Gives, with each call that has receipts left, another one for those: they are looked at the long way."""
    queues, audited = work.policies.keeping_nothing()
    given = sorted({receipt for call in calls for receipt in call.receipts})
    acks = Acks([seq for seq, _ in given], [token for _, token in given], queues, audited, work.now, calls[0].actor or work.own_actor)
    if work.tally is None:
        went = work.session.ack_all(acks)
        done = set(given) if went is None else {receipt for receipt in given if receipt[1] in went}
    else:
        done = set()
        for seq, token, queue, leased_at in work.session.ack_each(acks):
            done.add((seq, token))
            work.tally.counts[queue, "acked"] += 1
            work.tally.acked.append((queue, leased_at))
    return [(call, rest) for call in calls if (rest := _rest(call, done)) is not None]


def put_together(call: Settle, rest: Settle) -> None:
    """What became of the receipts that were left, in their places."""
    outcomes = iter(rest.result or ())
    call.error = rest.error
    call.result = [outcome if outcome is Outcome.DONE else next(outcomes) for outcome in call.result or ()] if rest.result else None


def _rest(call: Settle, done: set[tuple[int, int]]) -> Settle | None:
    """Gives a call its result as far as it is done, and takes what is done from the others: a second ack comes too late."""
    left = []
    call.result = []
    for receipt in call.receipts:
        if receipt in done:
            done.remove(receipt)
            call.result.append(Outcome.DONE)
        else:
            left.append(receipt)
            call.result.append(Outcome.NOT_FOUND)
    if not left:
        return None
    rest = Settle(left, call.verdict)
    rest.actor, rest.is_in_doubt = call.actor, call.is_in_doubt
    return rest
