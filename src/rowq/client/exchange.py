"""One request to a server: what it asks, how its response is read, and whether it may be repeated."""

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
    LOOK = "a lost answer loses nothing; asked again"
    REPEATED = "does something, and does it once however often it is asked"
    ONCE = "does something, and would do it again: never asked twice unless the first request cannot have arrived"


class Exchange(Generic[T_co]):
    """A request, and how to read its response."""

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
        """Seconds that the server is asked to wait before it answers."""
        self.interrupt = interrupt
        """Ends that wait."""
        self.undo = undo
        """The request to send if the caller has left before its response arrived."""
        self.is_slow = is_slow
        self.missing = missing
        """What to return if the server does not have the object, where that is not an error."""

    @property
    def needs_fresh(self) -> bool:
        """A request that cannot be repeated is not sent over a connection that the server may be closing."""
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
    """A refusal after an earlier try that the server may have received but not answered: the server speaks of this try alone. The earlier
    one may still be under way, and may meet other settings."""
    return OutcomeUnknown(f"an answer was lost, and the next try was refused: the first may or may not have been done [{error}]")


def look(target: str, read: Callable[[Answer], T]) -> Exchange[T]:
    return Exchange(b"GET", target, None, read, Kind.LOOK)


def no_answer(answer: Answer) -> None:
    """For responses that only confirm."""


def gone(answer: Answer, error: NotFound) -> None:
    """For deletions: if a repeated request finds the object gone, the first one did its work."""
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
        raise ServerUnavailable(f"the server there is not a rowq server, or one of another release: {error}") from None
