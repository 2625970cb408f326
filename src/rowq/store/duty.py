"""Duties: what one process does for all that share a database. Whoever has one renews it; who says no more loses it."""

from __future__ import annotations

from rowq.store.transaction import Work


def take(work: Work, name: str, holder: str, held_until: int) -> bool:
    """True when the duty is the holder's from now on, or was already."""
    values = {"name": name, "holder": holder, "now": work.now, "held_until": held_until}
    if work.session.run("take_duty", **values):
        return True
    return bool(work.session.run("offer_duty", name=name) and work.session.run("take_duty", **values))


def leave(work: Work, name: str, holder: str) -> None:
    work.session.write("leave_duty", name=name, holder=holder)
