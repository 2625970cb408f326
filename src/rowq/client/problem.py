"""The server's errors as rowq's exceptions: the same classes, found by their codes."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from rowq.client.http import Answer
from rowq.errors import BrokerClosed, PayloadTooLarge, RowqError, ServerUnavailable, StoreBusy, Unauthorized
from rowq.wire import Problem

_NOT_NOW = frozenset({StoreBusy.code, ServerUnavailable.code, BrokerClosed.code})
"""With these the server says that nothing was done, and that a retry may succeed."""

_decode = msgspec.json.Decoder(Problem).decode


def _family(kind: type[RowqError]) -> Iterator[type[RowqError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _family(child)


_BY_CODE: dict[str, type[RowqError]] = {kind.code: kind for kind in _family(RowqError) if kind.__module__ == RowqError.__module__}
# The server's broker was closed, not the caller's.
_BY_CODE[BrokerClosed.code] = ServerUnavailable
_BY_CODE["body_too_large"] = PayloadTooLarge
_BY_CODE["timeout"] = ServerUnavailable


def is_not_now(answer: Answer) -> bool:
    return answer.status == 503 and (problem := _problem(answer)) is not None and problem.code in _NOT_NOW


def is_ours(answer: Answer) -> bool:
    """Whether the rowq server itself refused; otherwise the response comes from a proxy in front of it."""
    return _problem(answer) is not None


def error_of(answer: Answer, server: str) -> RowqError:
    problem = _problem(answer)
    if problem is None:
        return ServerUnavailable(f"{server} answers with status {answer.status}, and not as a rowq server does: is this its address?")
    kind = _BY_CODE.get(problem.code)
    if kind is Unauthorized:
        return Unauthorized(f"{problem.error} (in Python: connect(url, api_key=…); for both, and the command line: ROWQ_API_KEY)")
    return RowqError(f"{problem.error} [{problem.code}]") if kind is None else kind(problem.error)


def _problem(answer: Answer) -> Problem | None:
    try:
        return _decode(answer.body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
