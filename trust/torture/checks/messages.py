"""Every message by itself: its life is possible, its holders were alone, only they have settled it, and it is where its story ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from trust.torture.checks.evidence import Evidence
from trust.torture.checks.lives import SETTLED, Holding, Life
from trust.torture.checks.stories import Said, Story, stories
from trust.torture.checks.testimony import SETTLES
from trust.torture.checks.verdict import Verdict
from trust.torture.queues import LEASES_MS, keeps_history

Complaint = tuple[str, str]

SHORTEST_MS = min(LEASES_MS)
SLACK_US = 1_000_000
"""By how much two hosts may differ about the database's time: what they know it from took up to a second to arrive."""
_WAITING = frozenset({"ready", "scheduled", "blocked"})


def check_messages(evidence: Evidence, verdict: Verdict, *, has_true_clock: bool) -> None:
    """`has_true_clock`: nobody has set the clock that leases go by, so they last as long by everybody's watch."""
    for story in stories(evidence):
        if not story.events:
            verdict.accuse("everything is in the audit", f"message {story.seq}", evidence.story_of(story.seq))
            continue
        life = Life(story)
        verdict.checked.update(_count(story, life))
        complaints = [*life.complaints, *_end(life), *_holders(life), *_handed_out(life), *_lasting(story)]
        if has_true_clock:
            complaints += _by_the_watch(life)
        for check, what in complaints:
            verdict.accuse(check, f"message {story.seq} of {story.queue}: {what}", evidence.story_of(story.seq))


def _count(story: Story, life: Life) -> Counter[str]:
    settles = [said for said in story.said if said.outcome != "unknown"]
    counted = {
        "a message's events follow from each other, and it is where they end": 1,
        "a delivery is the only one at its time, and counted up to the limit": len(life.holdings),
        "a lease that expired had come to its end": sum(
            one.ended is not None and one.ended.event == "lease_expired" for one in life.holdings
        ),
        "what ended a delivery was said by its holder": sum(one.ended is not None and one.ended.event in SETTLED for one in life.holdings),
        "a settle that was done is in the audit, once": sum(said.outcome == "done" for said in settles),
        "a receipt that was made up, stale or used is refused": sum(said.outcome == "refused" for said in settles),
        "what was acked stays acked": sum(event.event == "acked" for event in story.events),
        "a dead letter died of a cause, and stays dead": sum(event.event == "dead" for event in story.events),
        "at most once": story.queue == "once",
    }
    return Counter(counted)


def _end(life: Life) -> Iterator[Complaint]:
    """Where it is, against where its story ends."""
    story, last = life.story, life.story.events[-1].event
    states = [place.state for place in story.places]
    expected = {"held": {"leased"}, "dead": {"dead"}, "waiting": _WAITING}.get(life.state)
    if life.state == "gone":
        is_kept = keeps_history(story.queue) and last not in ("deleted", "purged")
        if states != ([last] if is_kept else []):
            yield "it is where its story ends", f"{states or 'nowhere'} after {last}"
    elif expected is None or len(states) != 1 or states[0] not in expected:
        yield "it is where its story ends", f"{states or 'nowhere'} though it is {life.state}"
    for place in story.places:
        if place.queue != story.queue:
            yield "it is where its story ends", f"in {place.queue}, and it was sent to {story.queue}"
        if place.attempts != life.attempts:
            yield "attempts are counted", f"{place.attempts} where it is, and the audit tells {life.attempts}"


def _holders(life: Life) -> Iterator[Complaint]:
    for holding in life.holdings:
        done = [said for said in holding.said if said.outcome == "done"]
        yield from _settled(holding, [said for said in done if said.verb != "extend"])
        extends = [said for said in holding.said if said.verb == "extend" and said.outcome != "refused"]
        fewest = sum(said.outcome == "done" for said in extends)
        # Over HTTP one call may have been heard several times: it is made again when no answer comes.
        most = len(holding.extended) if any(said.way == "http" for said in extends) else len(extends)
        if not fewest <= len(holding.extended) <= most:
            yield "only the holder settles", f"{len(holding.extended)} times extended, and {len(extends)} times asked for"
        if holding.ended is not None and holding.ended.event == "lease_expired" and holding.ended.at < (until := _until(holding, extends)):
            yield "one holder at a time", f"the lease of {holding.delivered.actor} was ended {until - holding.ended.at} ms too early"
    for said in life.story.said:
        if said.taken is None and said.outcome == "done":
            yield "only the holder settles", f"a made-up receipt was good enough for {said.verb}"


def _settled(holding: Holding, done: list[Said]) -> Iterator[Complaint]:
    who, ended = holding.delivered.actor, holding.ended
    if len(done) > 1:
        yield "only the holder settles", f"{who} was told {len(done)} times that it has settled"
    for said in done:
        if ended is None or ended.event != SETTLES[said.verb]:
            yield "only the holder settles", f"{who} was told that {said.verb} is done, and the audit tells {ended and ended.event}"
    if ended is None or ended.event not in SETTLED:
        return
    if holding.taken is None:
        # A server takes back by itself what nobody is there to take.
        if ended.event != "released":
            yield "only the holder settles", f"{ended.event}, and nobody had got it as {who}"
        elif holding.delivered.queue == "once":
            yield "at most once", f"taken back from {who}, who may have begun"
    elif not any(SETTLES[said.verb] == ended.event and said.outcome != "refused" for said in holding.said):
        yield "only the holder settles", f"{ended.event}, which {who} has never said, or was told to have failed"


def _until(holding: Holding, extends: list[Said]) -> int:
    """The earliest end that the lease can have had."""
    if not holding.extended:
        return holding.delivered.at + SHORTEST_MS if holding.taken is None else holding.taken.until
    known = [said.until for said in extends if said.until is not None]
    return known[-1] if len(known) == len(extends) else holding.extended[-1].at + SHORTEST_MS


def _handed_out(life: Life) -> Iterator[Complaint]:
    """Whoever got it is in the audit, with the same attempt; no two have the same receipt."""
    found = {holding.taken.id: holding for holding in life.holdings if holding.taken is not None}
    for taken in life.story.taken:
        if taken.id not in found:
            yield "every delivery is in the audit", f"{taken.tag} got it, and the audit does not know"
        elif taken.attempt not in (None, found[taken.id].delivered.attempt):
            yield "attempts are counted", f"{taken.tag} was told {taken.attempt}, the audit {found[taken.id].delivered.attempt}"
    tokens = Counter(taken.token for taken in life.story.taken if taken.token is not None)
    for token, count in tokens.items():
        if count > 1:
            yield "one holder at a time", f"{count} deliveries have the receipt {token:x}"


def _lasting(story: Story) -> Iterator[Complaint]:
    """By the participants' own words alone: nobody asks after an answered ack and gets it; at most once, nobody gets what another kept."""
    acked = [said.answered for said in story.said if said.verb == "ack" and said.outcome == "done" and said.answered is not None]
    for taken in story.taken:
        if acked and taken.asked > min(acked):
            yield "acked stays acked", f"{taken.tag} got it after somebody was told that it is acked"
    if story.queue == "once":
        returned = sum(said.verb in ("nack", "release", "reschedule") and said.outcome != "refused" for said in story.said)
        redriven = sum(event.event == "redriven" for event in story.events)
        if len(story.taken) > 1 + returned + redriven:
            yield "at most once", f"{len(story.taken)} consumers got it, and {returned} gave it back"


def _by_the_watch(life: Life) -> Iterator[Complaint]:
    """A lease that nobody settled or extended lasts as long as was said, also by the clock that all processes here share."""
    for first, second in zip(life.holdings, life.holdings[1:], strict=False):
        if first.taken is None or second.taken is None or first.extended or first.ended is None or first.ended.event != "lease_expired":
            continue
        lease_us = (first.taken.until - first.delivered.at) * 1000
        if second.taken.answered - first.taken.asked < lease_us - SLACK_US:
            yield "one holder at a time", f"{second.taken.tag} had it before the {lease_us // 1000} ms of {first.taken.tag} were over"
