"""Bulk operations over many transactions, in batches: the caller gets progress, and the audit gets one line at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from rowq.engine.arguments import PIECE, dead_piece
from rowq.engine.insights import Insights
from rowq.engine.operation import Operation, Read, Sleep, in_pieces
from rowq.errors import RowqError
from rowq.model.message import State, Where
from rowq.store import dead_letter, operate
from rowq.store.call import Execute
from rowq.store.stream import revoke
from rowq.store.transaction import Transaction

Progress = Callable[[int], None]
_REST = 0.2
"""Longest sleep in seconds between two progress reports, which may cancel the operation."""

_ORDER = (State.BLOCKED, State.SCHEDULED, State.READY, State.LEASED, State.DEAD, State.FINISHED)


def purge(insights: Insights, queue: str, states: Sequence[State], progress: Progress | None) -> Operation[int]:
    def pieces(tell: Progress) -> Operation[None]:
        count = 0
        for state in [state for state in _ORDER if state in states]:
            seqs = yield Read(partial(insights.list_seqs, queue, state))
            for start in range(0, len(seqs), PIECE):
                piece = list(seqs[start : start + PIECE])
                count += yield Execute(partial(operate.purge, queue=queue, state=state, seqs=piece))
                tell(count)

    return _noted(pieces, progress, "messages", partial(operate.note_purge, queue=queue, states=states))


def empty(insights: Insights, queue: str) -> Operation[int]:
    """Removes every message that the queue has now, in any state. Messages sent meanwhile stay: with many senders there would be no end.
    Repeats, because consumers may move a message to a state that has already been processed."""

    def pieces(tell: Progress) -> Operation[None]:
        last, count = (yield Read(partial(insights.last_seq, queue))), 0
        while (yield Read(partial(insights.has_upto, queue, last))):
            yield Execute(lambda tx: revoke.refuse_streamed(tx, queue), durable=False)
            for state in _ORDER:
                seqs = yield Read(partial(insights.list_seqs, queue, state))
                meant = [seq for seq in seqs if seq <= last]
                for start in range(0, len(meant), PIECE):
                    count += yield Execute(partial(operate.purge, queue=queue, state=state, seqs=meant[start : start + PIECE]))
                    tell(count)

    return _noted(pieces, None, "messages", partial(operate.note_purge, queue=queue, states=list(State)))


def treat_dead(
    kind: type[dead_letter.Chosen],
    queue: str,
    ids: list[str] | None,
    where: Where,
    most: int,
    rate: float | None,
    progress: Progress | None,
) -> Operation[int]:
    """Redrives or deletes up to `most` of the selected dead letters, at most `rate` per second."""
    piece = dead_piece(rate)

    def pieces(tell: Progress) -> Operation[None]:
        started = time.monotonic()
        count, after = 0, 0
        while count < most and after is not None:
            done, after = yield Execute(kind(queue, ids, where, after, min(piece, most - count)))
            count += done
            tell(count)
            if rate is not None and after is not None:
                while (left := started + count / rate - time.monotonic()) > _REST:
                    yield Sleep(_REST)
                    tell(count)
                yield Sleep(max(0.0, left))

    return _noted(pieces, progress, "dead letters", partial(dead_letter.note, queue=queue, event=kind.event))


def _noted(
    pieces: Callable[[Progress], Operation[None]], progress: Progress | None, noun: str, note: Callable[[Transaction, int], None]
) -> Operation[int]:
    """Gives the total count. Work that an error, a Ctrl-C or a cancellation stops early is recorded too."""
    done = 0

    def tell(count: int) -> None:
        nonlocal done
        done = count
        if progress is not None:
            progress(count)

    with in_pieces(lambda: done, noun):
        try:
            yield from pieces(tell)
        except BaseException as error:
            if done and not isinstance(error, GeneratorExit):
                with suppress(RowqError):
                    yield Execute(lambda tx: note(tx, done))
            raise
        yield Execute(lambda tx: note(tx, done))
    return done
