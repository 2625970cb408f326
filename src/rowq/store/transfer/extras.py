"""What a copy moves besides messages: audit lines, the ids of messages that are gone, undelivered keys, answers to requests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from rowq.ids import message_id
from rowq.store.dialect import Row
from rowq.store.transaction import Transaction
from rowq.store.transfer.progress import Course


def bring_events(tx: Transaction, events: Sequence[Row], courses: Mapping[str, Course]) -> int:
    """Writes rows of `list_events` unchanged, except for their seqs."""
    lines = [
        (at, queue, None if seq is None else seq + courses[queue].base, *rest)
        for _, queue, at, seq, *rest in events
        if courses[queue].takes(seq)
    ]
    tx.changes["insert_audit"].extend(lines)
    tx.flush()
    return len(lines)


def name_gone(tx: Transaction, events: Sequence[Row], courses: Mapping[str, Course]) -> None:
    """Writes rows of `list_enqueued`, for messages that are gone: their ids still lead to their audit."""
    rows = [(message_id(seq, at), seq + courses[queue].base, queue, tx.now) for _, queue, at, seq in events if courses[queue].takes(seq)]
    if rows:
        tx.session.many("insert_gone_id", ("id", "seq", "queue", "gone_at"), rows)


def bring_gone_ids(tx: Transaction, ids: Sequence[Row], course: Course) -> None:
    """Writes rows of `list_gone_ids`: callers' own ids stay taken."""
    rows = [(id, seq + course.base, course.queue, gone_at) for id, seq, gone_at in ids if course.takes(seq)]
    if rows:
        tx.session.many("insert_gone_id", ("id", "seq", "queue", "gone_at"), rows)


def bring_answers(tx: Transaction, answers: Sequence[Row]) -> None:
    """Writes rows of `list_answers`: a send that is retried at the target gets its first answer."""
    tx.session.many("insert_answer", ("id", "at", "fingerprint", "answer"), answers)


def bring_entries(tx: Transaction, entries: Sequence[Row], courses: Mapping[str, Course], *, everything: bool) -> int:
    """Writes rows of `read_kv`, for messages of these queues, and with `everything` also those of unknown queues. Entries of an earlier run
    are not written again, as they may have been deleted here since; entries written here later are kept."""
    ids = sorted({entry[4] for entry in entries})
    queues: defaultdict[str, set[str]] = defaultdict(set)
    for id, _, queue, _ in tx.session.rows("find_ids", ids=ids) if ids else []:
        queues[id].add(queue)
    until = {queue: course.entries for queue, course in courses.items()}
    oldest = min(until.values())
    count = 0
    for entry_key, format, value, written_at, id in entries:
        ours = queues[id] & until.keys()
        if (not ours and (queues[id] or not everything)) or written_at <= min([until[queue] for queue in ours], default=oldest):
            continue
        found = tx.session.row("find_entry", entry_key=entry_key)
        if found is None or found[0] < written_at:
            tx.session.write("write_entry", entry_key=entry_key, format=format, value=value, written_at=written_at, message_id=id)
            count += 1
    return count
