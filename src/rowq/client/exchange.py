"""One question to a server: what is asked, how its answer is read, and whether it may be asked twice."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Generic, TypeVar

import msgspec

from rowq.client.http import Answer
from rowq.client.problem import error_of
from rowq.engine.waiting import Interrupt
from rowq.errors import NotFound, OutcomeUnknown, RowqError, ServerUnavailable

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

PATIENCE = 3_600.0
"""How long a slow verb, such as the purge of millions, may take to answer."""


class Kind(Enum):
    LOOK = "nothing is lost with a lost answer; asked again"
    REPEATED = "does something, and does it once however often it is asked"
    ONCE = "does something, and would do it again: never asked twice unless the first question cannot have arrived"


class Exchange(Generic[T_co]):
    """A request, and what to make of its answer."""

    __slots__ = ("body", "headers", "interrupt", "is_slow", "kind", "method", "missing", "read", "target", "undo", "wait")

    def __init__(
        self,
        method: bytes,
        target: str,
        body: bytes | None,
        read: Callable[[Answer], T_co],
        kind: Kind = Kind.REPEATED,
        *,
        headers: bytes = b"",
        wait: float = 0.0,
        interrupt: Interrupt | None = None,
        undo: Callable[[Answer], Exchange[Any] | None] | None = None,
        is_slow: bool = False,
        missing: Callable[[Answer, NotFound], T_co] | None = None,
    ) -> None:
        self.method = method
        self.target = target
        self.body = body
        self.read = read
        self.kind = kind
        self.headers = headers
        self.wait = wait
        """Seconds that the server was asked to wait before it answers."""
        self.interrupt = interrupt
        """Ends that wait."""
        self.undo = undo
        """What to ask for when the caller has left before its answer came."""
        self.is_slow = is_slow
        self.missing = missing
        """What to make of it when the server does not have what was asked for, if that is not an error."""

    @property
    def needs_fresh(self) -> bool:
        """What cannot be asked twice is not asked over a connection that the server may be closing."""
        return self.kind is Kind.ONCE

    def result(self, answer: Answer, server: str) -> T_co:
        if answer.status < 300:
            return self._read(answer)
        error = error_of(answer, server)
        if self.missing is not None and isinstance(error, NotFound):
            return self.missing(answer, error)
        if answer.is_repeat and self.kind is not Kind.LOOK:
            raise in_doubt(error) from error
        raise error

    def _read(self, answer: Answer) -> T_co:
        try:
            return self.read(answer)
        except ServerUnavailable as error:
            if self.kind is Kind.LOOK:
                raise
            raise OutcomeUnknown(f"it was asked for, and the answer cannot be read: it may or may not have been done [{error}]") from error


def in_doubt(error: RowqError) -> OutcomeUnknown:
    """What a refusal means to somebody whose question was heard before, perhaps, and not answered: the server speaks of this try alone. The
    earlier one may be on its way still, and meet other settings than this one did."""
    return OutcomeUnknown(f"an answer was lost, and the next try was refused: the first may or may not have been done [{error}]")


def look(target: str, read: Callable[[Answer], T]) -> Exchange[T]:
    return Exchange(b"GET", target, None, read, Kind.LOOK)


def no_answer(answer: Answer) -> None:
    """For answers that only say that it is done."""


def gone(answer: Answer, error: NotFound) -> None:
    """For what was to be removed: that a second try finds it gone is what the first one was asked for."""
    if not answer.is_repeat:
        raise error


def reader(kind: type[T]) -> Callable[[Answer], T]:
    decode = msgspec.json.Decoder(kind).decode

    def read(answer: Answer) -> T:
        return understood(decode, answer.body)

    return read


def understood(decode: Callable[[bytes], T], data: bytes) -> T:
    try:
        return decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ServerUnavailable(f"what answers there is no rowq server, or one of another release: {error}") from None
