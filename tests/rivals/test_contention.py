"""Many processes at the same keys and in the same groups: one waits under a key, one of a group is out, and nothing is ever stuck."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any

import rowq
from tests.rivals.process import Rival, Start
from tests.rivals.watching import watched
from tests.support.patience import eventually

SENDERS, HANDLERS, THREADS = 2, 2, 3
CALLS = 26
"""Of each thread that sends; so many are enough for each to have chosen its own key."""


def contend(begin: Start, url: str, by: str, share: int) -> tuple[list[list[Any]], list[list[Any]]]:
    """Senders and handlers at the same time, until every thread that sends has been answered so often, one has come upon a key that
    another had taken, and everything is handled."""
    with rowq.connect(url) as broker, watched(url):
        broker.configure("q", max_attempts=0, backoff=[])
        handlers = [begin("handling", url, f"handler-{number}", THREADS, share) for number in range(HANDLERS)]
        senders = [begin("contending", url, f"sender-{number}", THREADS, by) for number in range(SENDERS)]
        eventually(lambda: all(_have_sent(sender, CALLS) for sender in senders))
        eventually(lambda: by == "groups" or _is_answered_twice(_all_said(senders, "sent")))
        for handler in handlers:
            handler.await_said("held")
        for sender in senders:
            sender.finish()
        eventually(lambda: broker.stats("q").depth == 0)
        for handler in handlers:
            handler.finish()
    assert _all_said(handlers, "lost") == []
    return _all_said(senders, "sent"), _all_said(handlers, "held")


def test_the_payload_of_an_answered_replacement_is_never_lost(begin: Start, url: str) -> None:
    """Each message is delivered once, and what was last answered under its id is what the consumer gets."""
    sent, held = contend(begin, url, "keys", 0)
    answered: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for id, _, _, name, number in sent:
        answered[id][name] = max(number, answered[id].get(name, -1))
    delivered = {id: payload for id, _, _, payload, *_ in held}
    assert len(delivered) == len(held), "delivered twice"
    assert delivered.keys() == answered.keys()
    assert len(answered) < len(sent), "nothing was replaced"
    lost = {id: (payload, answered[id]) for id, payload in delivered.items() if answered[id].get(payload[0]) != payload[1]}
    assert lost == {}


def test_a_group_is_handled_one_after_another_in_the_order_of_each_sender(begin: Start, url: str) -> None:
    sent, held = contend(begin, url, "groups", 20)
    done = [id for id, _, _, _, is_done, *_ in held if is_done]
    assert sorted(done) == sorted(id for id, *_ in sent), "lost, or handled twice"
    assert len(held) > len(done), "nothing was handed back"
    _assert_one_at_a_time_and_in_order(held)


def test_keys_within_groups_are_never_stuck(begin: Start, url: str) -> None:
    """A keyed message that waits behind the head of a group is replaced while the head leaves: nobody may miss it."""
    sent, held = contend(begin, url, "both", 20)
    assert {id for id, *_ in held} <= {id for id, *_ in sent}
    sent_last = _newest([(name, number) for _, key, _, name, number in sent if key == f"of-{name}"])
    held_last = _newest([(name, number) for _, key, _, (name, number), *_ in held if key == f"of-{name}"])
    assert held_last == sent_last
    assert len(sent_last) == SENDERS * THREADS


def _assert_one_at_a_time_and_in_order(held: list[list[Any]]) -> None:
    groups: defaultdict[str, list[list[Any]]] = defaultdict(list)
    for delivery in sorted(held, key=lambda delivery: delivery[5]):
        groups[delivery[2]].append(delivery)
    for group, deliveries in groups.items():
        for (*_, until), (*_, since, _) in pairwise(deliveries):
            assert until <= since, f"two were held of {group}"
        numbers: defaultdict[str, list[int]] = defaultdict(list)
        for _, _, _, (name, number), *_ in deliveries:
            numbers[name].append(number)
        assert [name for name, said in numbers.items() if said != sorted(said)] == [], f"out of order in {group}"


def _have_sent(sender: Rival, calls: int) -> bool:
    """Every one of its threads, so often."""
    sent = Counter(name for *_, name, _ in sender.said("sent"))
    return len(sent) == THREADS and min(sent.values()) >= calls


def _is_answered_twice(sent: list[list[Any]]) -> bool:
    return len({id for id, *_ in sent}) < len(sent)


def _newest(numbered: list[tuple[str, int]]) -> dict[str, int]:
    newest: dict[str, int] = {}
    for name, number in numbered:
        newest[name] = max(number, newest.get(name, -1))
    return newest


def _all_said(rivals: list[Rival], word: str) -> list[list[Any]]:
    return [line for rival in rivals for line in rival.said(word)]
