"""Errors as answers: a status, a stable code for programs, a text for people."""

from __future__ import annotations

import logging
from http import HTTPStatus

import msgspec

from rowq import errors
from rowq.errors import RowqError
from rowq.server.http.asgi import Headers
from rowq.wire import Problem

_log = logging.getLogger("rowq.server")

_STATUS: tuple[tuple[type[RowqError], HTTPStatus], ...] = (
    (errors.PayloadTooLarge, HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
    (errors.PayloadRejected, HTTPStatus.UNPROCESSABLE_ENTITY),
    (errors.InvalidArgument, HTTPStatus.BAD_REQUEST),
    (errors.NotFound, HTTPStatus.NOT_FOUND),
    (errors.QueueFull, HTTPStatus.TOO_MANY_REQUESTS),
    (errors.TooManyFailures, HTTPStatus.TOO_MANY_REQUESTS),
    (errors.AmbiguousId, HTTPStatus.CONFLICT),
    (errors.IdTaken, HTTPStatus.CONFLICT),
    (errors.RequestConflict, HTTPStatus.CONFLICT),
    (errors.LeaseLost, HTTPStatus.CONFLICT),
    (errors.HeldByStream, HTTPStatus.CONFLICT),
    (errors.ConsumerGone, HTTPStatus.GONE),
    (errors.Unauthorized, HTTPStatus.UNAUTHORIZED),
    (errors.Forbidden, HTTPStatus.FORBIDDEN),
    (errors.OutcomeUnknown, HTTPStatus.INTERNAL_SERVER_ERROR),
    (errors.StoreError, HTTPStatus.SERVICE_UNAVAILABLE),
    (errors.BrokerClosed, HTTPStatus.SERVICE_UNAVAILABLE),
    (errors.ServerUnavailable, HTTPStatus.SERVICE_UNAVAILABLE),
)


class HttpError(Exception):
    """An error of HTTP itself, before any verb."""

    def __init__(self, status: HTTPStatus, code: str, sentence: str, headers: Headers | None = None) -> None:
        super().__init__(sentence)
        self.status = status
        self.code = code
        self.headers = headers or []


def to_answer(error: Exception) -> tuple[HTTPStatus, bytes, Headers]:
    """Status, body and further headers. Unexpected exceptions are logged; the answer does not show their details."""
    if isinstance(error, TimeoutError):
        error = HttpError(HTTPStatus.REQUEST_TIMEOUT, "timeout", "the body did not arrive in time", [(b"connection", b"close")])
    if isinstance(error, HttpError):
        return error.status, _body(error.code, str(error)), error.headers
    if isinstance(error, RowqError):
        return status_of(error), _body(error.code, str(error)), _headers(error)
    _log.error("a request failed", exc_info=error)
    return HTTPStatus.INTERNAL_SERVER_ERROR, _body("internal", "the server failed to do this; see its log"), []


def status_of(error: RowqError) -> HTTPStatus:
    return next((status for kind, status in _STATUS if isinstance(error, kind)), HTTPStatus.INTERNAL_SERVER_ERROR)


def _body(code: str, sentence: str) -> bytes:
    return msgspec.json.encode(Problem(code, sentence.encode("utf-8", "replace").decode()))


def _headers(error: RowqError) -> Headers:
    match error:
        case errors.Unauthorized():
            return [(b"www-authenticate", b'Bearer realm="rowq", Basic realm="rowq"')]
        case errors.TooManyFailures():
            return [(b"retry-after", str(getattr(error, "retry_after", 60)).encode())]
        case errors.QueueFull() | errors.StoreBusy() | errors.BrokerClosed() | errors.ServerUnavailable():
            return [(b"retry-after", b"1")]
    return []
