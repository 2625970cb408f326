"""Locks on keys and groups. A row is locked before anything is decided by it, also where there was none.

Where others write at the same time, two senders that find no row would both take the place. So each first writes a row that names
nobody; a row that is there already is locked by that, and stays as it is.
"""

from __future__ import annotations

from rowq.store.dialect import Session


def lock_keys(session: Session, queue: str, keys: list[str]) -> dict[str, int]:
    """The message that was last known to wait under each of the keys, which are given in order."""
    if not session.is_alone:
        session.many("reserve_key", ("queue", "message_key"), [(queue, key) for key in keys])
    return {key: seq for key, seq in session.rows("lock_waiting_keys", queue=queue, keys=keys) if seq}


def lock_groups(session: Session, queue: str, groups: list[str]) -> dict[str, int]:
    """The head of each of the groups that have one; the groups are given in order."""
    if not session.is_alone:
        session.many("reserve_group", ("queue", "group_key"), [(queue, group) for group in groups])
    return {group: head for group, head in session.rows("lock_group_heads", queue=queue, groups=groups) if head}
