"""Duties: what one process does for all that share a database. Whoever has one renews it; who says no more loses it."""

from __future__ import annotations

from rowq.store.transaction import Transaction


def take(tx: Transaction, name: str, holder: str, held_until: int) -> bool:
    """True when the duty is the holder's from now on, or was already."""
    values = {"name": name, "holder": holder, "now": tx.now, "held_until": held_until}
    if tx.session.run("take_duty", **values):
        return True
    return bool(tx.session.run("offer_duty", name=name) and tx.session.run("take_duty", **values))


def leave(tx: Transaction, name: str, holder: str) -> None:
    tx.session.write("leave_duty", name=name, holder=holder)
