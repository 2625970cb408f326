"""Settling deliveries by receipt: ack, nack, reject, reschedule, extend."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any

import msgspec
import typer

import rowq
from rowq.cli.command import Session
from rowq.cli.files import arrivals, stdin
from rowq.cli.output import FAILED, Failure
from rowq.cli.parameter import Reason, Receipts, duration_option
from rowq.cli.text import counted
from rowq.ids import read_receipt
from rowq.model.lifecycle import NackLimit

_BATCH = 500


class _Delivery(msgspec.Struct):
    """The one field of a printed delivery that is needed here."""

    receipt: str


def ack(session: Session, receipts: Receipts) -> None:
    """Done: the messages leave the queue."""
    _settle(session, receipts, "acked", lambda broker, batch: broker.ack_many(batch))


def nack(
    session: Session,
    receipts: Receipts,
    reason: Reason = None,
    delay: Annotated[float | None, duration_option("--delay", "Return after this instead of the backoff.")] = None,
    released: Annotated[bool, typer.Option("--released", help="Not the message's fault: the attempt is not counted.")] = False,
    limit: Annotated[NackLimit, typer.Option("--limit", help="What ends the retries: its attempts, or its deadline too.")] = "attempts",
) -> None:
    """Failed: the messages return, or become dead letters after their last attempt."""
    options: dict[str, Any] = {"reason": reason, "delay": delay, "counts": not released, "limit": limit}
    _settle(session, receipts, "nacked", lambda broker, batch: broker.nack_many(batch, **options))


def reject(session: Session, receipts: Receipts, reason: Reason = None) -> None:
    """Hopeless: the messages become dead letters at once."""
    _settle(session, receipts, "rejected", lambda broker, batch: broker.reject_many(batch, reason=reason))


def reschedule(
    session: Session,
    receipts: Receipts,
    delay: Annotated[float, duration_option("--delay", "Return after this.")],
    reason: Reason = None,
) -> None:
    """Later: the messages return after a delay, with attempts at zero."""
    _settle(session, receipts, "rescheduled", lambda broker, batch: broker.reschedule_many(batch, delay, reason=reason))


def extend(
    session: Session,
    receipts: Receipts,
    lease: Annotated[float | None, duration_option("--lease", "Counted from now. Default: as the queue is configured.")] = None,
) -> None:
    """Not done yet: extend the leases."""
    _settle(session, receipts, "extended", lambda broker, batch: broker.extend_many(batch, lease))


def check_outcomes(outcomes: Sequence[rowq.Outcome]) -> None:
    """Fail if a lease was lost."""
    _check(sum(outcome is not rowq.Outcome.DONE for outcome in outcomes), len(outcomes))


def _settle(session: Session, receipts: list[str], done: str, verb: Callable[[rowq.Broker, list[str]], list[rowq.Outcome]]) -> None:
    count = lost = 0
    with session.connect() as broker:
        try:
            for batch in _batches(receipts):
                for receipt in batch:
                    read_receipt(receipt)  # a typing error should be reported as such, and not as a lost lease
                for receipt, outcome in zip(batch, verb(broker, batch), strict=True):
                    count += 1
                    lost += outcome is not rowq.Outcome.DONE
                    if session.output.json:
                        session.output.document({"receipt": receipt, "outcome": outcome})
                    elif outcome is not rowq.Outcome.DONE:
                        session.output.line(f"{receipt} {outcome}")
                session.output.flush()
        finally:
            # Printed even if a later line of stdin was not a receipt: what was settled before it stays settled.
            if count and not session.output.json:
                session.output.line(f"{counted(count - lost, 'message')} {done}")
    _check(lost, count)


def _check(lost: int, count: int) -> None:
    if lost:
        sentence = (
            f"{lost} of {counted(count, 'receipt')} no longer held a lease: it expired and the message moved on, or was settled before"
        )
        raise Failure(sentence, code=rowq.LeaseLost.code, exit_code=FAILED)


def _batches(receipts: list[str]) -> Iterator[list[str]]:
    """The receipts given, then those of stdin as they arrive: a lease cannot wait for a batch to fill."""
    given = [receipt for receipt in receipts if receipt != "-"]
    for start in range(0, len(given), _BATCH):
        yield given[start : start + _BATCH]
    if "-" in receipts:
        for lines, _ in arrivals(stdin()):
            if batch := [_receipt_of(line) for line in lines if line.strip()]:
                yield batch


def _receipt_of(line: bytes) -> str:
    """A line is a receipt, or a delivery as receive --json printed it."""
    try:
        return msgspec.json.decode(line, type=_Delivery).receipt if line.lstrip().startswith(b"{") else line.decode().strip()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise rowq.InvalidReceipt(f"a line of stdin is neither a receipt nor a delivery with one: {error}") from None
