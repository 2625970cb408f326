"""Tracing: spans for send, receive and settle, and the trace that travels with a message in its headers (W3C `traceparent`).

`tracing` is None, and costs nothing, unless it is switched on and opentelemetry-api is installed. The hot routes use it like this:

    tracing = open_tracing(config.otel)                                  # Tracing | None, once, when the server starts

    if tracing is None:
        ids = await perform(Send(queue, messages))
    else:
        with tracing.sending(headers, queue, messages):                  # before the call is created: it writes message.headers
            ids = await perform(Send(queue, messages))

        with tracing.receiving(headers, queue) as received:              # around the whole wait; no message, no span
            rows = …
            received.hand_out(rows)                                      # rows of Receive.result

        with tracing.settling(headers, "ack", len(receipts)):
            outcomes = await perform(call)

`headers` are those of the ASGI scope. Errors that leave a `with` are recorded in its span. Spans go where OpenTelemetry's own
configuration sends them (OTEL_… variables and an SDK); with the API alone, the message still carries the trace of its request.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

import rowq
from rowq.model.draft import MAX_HEADER_BYTES, Prepared
from rowq.store.dialect import Row
from rowq.store.row import DeliveryRow

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import SpanContext, TracerProvider

_log = logging.getLogger("rowq.server")

AsgiHeaders = Iterable[tuple[bytes, bytes]]

MAX_LINKS = 128
"""The SDK's default limit per span."""
_NAMES = (b"traceparent", b"tracestate")
_MARK = b'"traceparent"'

_headers = msgspec.json.Decoder(dict[str, str])


def open_tracing(is_on: bool) -> Tracing | None:
    if not is_on:
        return None
    try:
        return Tracing()
    except ImportError:
        _log.warning("tracing is switched on, but opentelemetry-api is not installed: install rowq[otel], and an SDK with an exporter")
        return None


class Received:
    """The result of a receive, for its span."""

    def __init__(self) -> None:
        self.rows: Sequence[Row] = ()

    def hand_out(self, rows: Sequence[Row]) -> None:
        self.rows = rows


class Tracing:
    def __init__(self, provider: TracerProvider | None = None) -> None:
        """Without a provider: the one that OpenTelemetry is configured with."""
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._trace = trace
        self._tracer = trace.get_tracer("rowq", rowq.__version__, provider)
        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def sending(self, headers: AsgiHeaders, queue: str, messages: Sequence[Prepared]) -> Iterator[None]:
        """A span `send <queue>`, whose context every message carries unless its producer gave it one."""
        span = self._tracer.start_span(
            f"send {queue}",
            self._parent(headers),
            self._trace.SpanKind.PRODUCER,
            _attributes("send", "send", len(messages), queue),
        )
        with self._trace.use_span(span, end_on_exit=True):
            carried: dict[str, str] = {}
            self._propagator.inject(carried)
            if carried:
                _put_into(messages, carried)
            yield

    @contextmanager
    def receiving(self, headers: AsgiHeaders, queue: str) -> Iterator[Received]:
        """A span `receive <queue>` with links to the sends of its messages; no span without a message or an error."""
        received, started = Received(), time.time_ns()
        error: Exception | None = None
        try:
            yield received
        except Exception as raised:
            error = raised
            raise
        finally:
            if received.rows or error:
                self._record(headers, queue, received.rows, started, error)

    @contextmanager
    def settling(self, headers: AsgiHeaders, verb: str, count: int) -> Iterator[None]:
        """A span `ack`, `nack` and so on; receipts may come from many queues, so it names none."""
        span = self._tracer.start_span(verb, self._parent(headers), self._trace.SpanKind.CONSUMER, _attributes(verb, "settle", count))
        with self._trace.use_span(span, end_on_exit=True):
            yield

    def _record(self, headers: AsgiHeaders, queue: str, rows: Sequence[Row], started: int, error: Exception | None) -> None:
        span = self._tracer.start_span(
            f"receive {queue}",
            self._parent(headers),
            self._trace.SpanKind.CONSUMER,
            _attributes("receive", "receive", len(rows), queue),
            links=[self._trace.Link(context) for context in self._origins(rows)],
            start_time=started,
        )
        if error is not None:
            span.record_exception(error)
            span.set_status(self._trace.StatusCode.ERROR, f"{type(error).__name__}: {error}")
        span.end()

    def _parent(self, headers: AsgiHeaders) -> Context:
        """The request's parent context; a span that another instrumentation has opened around the request takes precedence."""
        from opentelemetry import context

        current = context.get_current()
        if self._trace.get_current_span(current).get_span_context().is_valid:
            return current
        return self._propagator.extract({name.decode(): value.decode("latin-1") for name, value in headers if name in _NAMES}, current)

    def _origins(self, rows: Sequence[Row]) -> Iterator[SpanContext]:
        for row in rows[:MAX_LINKS]:
            if row[DeliveryRow.HEADERS] and _MARK in bytes(row[DeliveryRow.HEADERS]):
                context = self._propagator.extract(_headers.decode(row[DeliveryRow.HEADERS]))
                origin = self._trace.get_current_span(context).get_span_context()
                if origin.is_valid:
                    yield origin


def _put_into(messages: Sequence[Prepared], carried: dict[str, str]) -> None:
    """Skips messages that already have a trace, and those whose headers would become too large: a trace must not cause a rejection."""
    plain = msgspec.json.encode(carried)
    for message in messages:
        if message.headers is None:
            message.headers = plain
        elif "traceparent" not in (given := _headers.decode(message.headers)):
            encoded = msgspec.json.encode({**given, **carried})
            if len(encoded) <= MAX_HEADER_BYTES:
                message.headers = encoded


def _attributes(verb: str, kind: str, count: int, queue: str | None = None) -> dict[str, str | int]:
    """By OpenTelemetry's conventions for messaging."""
    attributes: dict[str, str | int] = {
        "messaging.system": "rowq",
        "messaging.operation.name": verb,
        "messaging.operation.type": kind,
        "messaging.batch.message_count": count,
    }
    return attributes if queue is None else {**attributes, "messaging.destination.name": queue}
