"""Which faults come in which order: the seed says."""

from __future__ import annotations

import random

from trust.torture.faults import FAULTS, Fault


def faults_of(kind: str, *, has_disk: bool) -> list[Fault]:
    """All that have a meaning there."""
    return [fault for fault in FAULTS if kind in fault.kinds and (has_disk or fault.name != "disk full")]


def plan(kind: str, seed: int, count: int, *, has_disk: bool) -> list[Fault]:
    """Dealt from a deck that holds each as often as it weighs, and a new deck when that is used up: none is left out by chance."""
    choose = random.Random(f"{kind} {seed}")
    dealt: list[Fault] = []
    while len(dealt) < count:
        deck = [fault for fault in faults_of(kind, has_disk=has_disk) for _ in range(fault.weight)]
        choose.shuffle(deck)
        dealt += deck
    return dealt[:count]
