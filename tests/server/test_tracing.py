"""Traces: the one that a request belongs to travels on with its messages, and receivers link back to it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import NoOpTracerProvider, SpanKind, StatusCode

from rowq.errors import QueueFull
from rowq.model.draft import MAX_HEADER_BYTES, Prepared
from rowq.server.compat.registry import open_apis
from rowq.server.tracing import Tracing, open_tracing
from rowq.store.dialect import Row
from tests.server.support import ask, serving

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
REQUEST = [(b"host", b"localhost"), (b"traceparent", PARENT.encode()), (b"tracestate", b"vendor=1")]


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def tracing(exporter: InMemorySpanExporter) -> Iterator[Tracing]:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield Tracing(provider)
    provider.shutdown()


def message(headers: dict[str, str] | None = None) -> Prepared:
    return Prepared("q", 1, b"1", headers=None if headers is None else msgspec.json.encode(headers))


def headers_of(message: Prepared) -> dict[str, str]:
    return msgspec.json.decode(message.headers or b"{}", type=dict[str, str])


def delivered(headers: dict[str, str] | None) -> Row:
    """A row of Receive.result."""
    return (7, "q", 1, 99, 0, 1, b"1", None if headers is None else msgspec.json.encode(headers), 0, None, None, 0, None)


def only(exporter: InMemorySpanExporter) -> ReadableSpan:
    (span,) = exporter.get_finished_spans()
    return span


def trace_of(span: ReadableSpan) -> str:
    assert span.context is not None
    return f"{span.context.trace_id:032x}"


def parent_of(span: ReadableSpan) -> str:
    assert span.context is not None
    return f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-{span.context.trace_flags:02x}"


def test_a_send_puts_its_context_into_the_messages(tracing: Tracing, exporter: InMemorySpanExporter) -> None:
    plain, labelled = message(), message({"tenant": "a"})
    with tracing.sending(REQUEST, "q", [plain, labelled]):
        pass
    span = only(exporter)
    assert (span.name, span.kind, trace_of(span)) == ("send q", SpanKind.PRODUCER, TRACE)
    assert span.parent is not None and span.parent.is_remote
    assert headers_of(plain) == {"traceparent": parent_of(span), "tracestate": "vendor=1"}
    assert headers_of(labelled) == {"tenant": "a", "traceparent": parent_of(span), "tracestate": "vendor=1"}
    assert dict(span.attributes or {}) == {
        "messaging.system": "rowq",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.batch.message_count": 2,
        "messaging.destination.name": "q",
    }


def test_a_trace_that_the_sender_gave_is_left_alone(tracing: Tracing) -> None:
    own = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}
    given = message(own)
    with tracing.sending(REQUEST, "q", [given]):
        pass
    assert headers_of(given) == own


def test_a_request_without_a_trace_begins_one(tracing: Tracing, exporter: InMemorySpanExporter) -> None:
    plain = message()
    with tracing.sending([(b"traceparent", b"nonsense")], "q", [plain]):
        pass
    assert only(exporter).parent is None
    assert headers_of(plain) == {"traceparent": parent_of(only(exporter))}


def test_headers_that_would_become_too_large_stay_as_they_are(tracing: Tracing) -> None:
    large = {"note": "x" * (MAX_HEADER_BYTES - 20)}
    full = message(large)
    with tracing.sending(REQUEST, "q", [full]):
        pass
    assert headers_of(full) == large


def test_a_send_that_fails_is_recorded(tracing: Tracing, exporter: InMemorySpanExporter) -> None:
    with pytest.raises(QueueFull), tracing.sending(REQUEST, "q", [message()]):
        raise QueueFull("the queue is full")
    span = only(exporter)
    assert span.status.status_code is StatusCode.ERROR
    assert [event.name for event in span.events] == ["exception"]


def test_a_receive_links_to_where_the_messages_were_sent(tracing: Tracing, exporter: InMemorySpanExporter) -> None:
    with tracing.receiving([], "q") as received:
        received.hand_out(
            [delivered({"traceparent": PARENT}), delivered(None), delivered({"a": "b"}), delivered({"traceparent": "nonsense"})]
        )
    span = only(exporter)
    assert (span.name, span.kind, span.parent) == ("receive q", SpanKind.CONSUMER, None)
    assert [f"{link.context.trace_id:032x}" for link in span.links] == [TRACE]
    assert (span.attributes or {})["messaging.batch.message_count"] == 4
    assert span.start_time is not None and span.end_time is not None and span.start_time <= span.end_time


def test_what_a_send_wrote_is_what_a_receive_links_to(tracing: Tracing, exporter: InMemorySpanExporter) -> None:
    plain = message()
    with tracing.sending([], "q", [plain]):
        pass
    with tracing.receiving([], "q") as received:
        received.hand_out([delivered(headers_of(plain))])
    sent, taken = exporter.get_finished_spans()
    assert [link.context.span_id for link in taken.links] == [sent.context.span_id if sent.context else None]
    assert trace_of(sent) != trace_of(taken)


def test_a_receive_of_nothing_leaves_no_span_unless_it_fails(tracing: Tracing, exporter: InMemorySpanExporter) -> None:
    with tracing.receiving(REQUEST, "q"):
        pass
    assert not exporter.get_finished_spans()
    with pytest.raises(QueueFull), tracing.receiving(REQUEST, "q"):
        raise QueueFull("refused")
    assert only(exporter).status.status_code is StatusCode.ERROR


def test_a_settle_is_a_span_of_the_request(tracing: Tracing, exporter: InMemorySpanExporter) -> None:
    with tracing.settling(REQUEST, "nack", 3):
        pass
    span = only(exporter)
    assert (span.name, trace_of(span)) == ("nack", TRACE)
    assert (span.attributes or {})["messaging.operation.type"] == "settle"
    assert (span.attributes or {})["messaging.batch.message_count"] == 3


def test_a_span_around_the_request_is_the_parent(tracing: Tracing, exporter: InMemorySpanExporter) -> None:
    with tracing._tracer.start_as_current_span("request") as outer, tracing.settling(REQUEST, "ack", 1):
        pass
    inner = exporter.get_finished_spans()[0]
    assert inner.parent == outer.get_span_context()


def test_without_an_sdk_the_trace_of_the_request_still_travels() -> None:
    plain = message()
    with Tracing(NoOpTracerProvider()).sending(REQUEST, "q", [plain]):
        pass
    assert headers_of(plain) == {"traceparent": PARENT, "tracestate": "vendor=1"}
    lone = message()
    with Tracing(NoOpTracerProvider()).sending([], "q", [lone]):
        pass
    assert lone.headers is None


def test_switched_off_there_is_no_tracing_and_nothing_is_imported() -> None:
    program = (
        "import sys; from rowq.server.tracing import open_tracing; assert open_tracing(False) is None; "
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_switched_on_there_is_tracing() -> None:
    assert isinstance(open_tracing(True), Tracing)


def test_without_the_package_there_is_a_warning_and_no_tracing(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    assert open_tracing(True) is None
    assert "rowq[otel]" in caplog.text


def test_the_routes_carry_a_trace_from_sender_to_receiver(tmp_path: Path, tracing: Tracing, exporter: InMemorySpanExporter) -> None:
    with serving(tmp_path) as server:
        server.service.tracing = tracing
        parent = {"traceparent": PARENT}
        assert ask(server, "POST", "/v1/queues/q/messages", {"payload": 1}, headers=parent).status == 201
        (delivery,) = ask(server, "POST", "/v1/queues/q/deliveries", {}).json["deliveries"]
        assert delivery["headers"]["traceparent"].split("-")[1] == TRACE
        ask(server, "POST", "/v1/ack", {"receipts": [delivery["receipt"]]}, headers=parent)
    sent, received, acked = exporter.get_finished_spans()
    assert [span.name for span in (sent, received, acked)] == ["send q", "receive q", "ack"]
    assert trace_of(sent) == trace_of(acked) == TRACE
    assert [f"{link.context.trace_id:032x}" for link in received.links] == [TRACE]


def test_a_retry_with_another_trace_is_the_same_request(tmp_path: Path, tracing: Tracing) -> None:
    with serving(tmp_path) as server:
        server.service.tracing = tracing
        tries = [ask(server, "POST", "/v1/queues/q/messages", {"payload": 1}, headers={"idempotency-key": "k"}) for _ in range(2)]
        assert tries[0].status == 201
        assert tries[0].json == tries[1].json


def test_an_api_carries_a_trace_as_the_routes_do(tmp_path: Path, tracing: Tracing, exporter: InMemorySpanExporter) -> None:
    with serving(tmp_path, compat=open_apis(("keyval",), {})) as server:
        server.service.tracing = tracing
        parent = {"traceparent": PARENT}
        assert ask(server, "POST", "/keyval/api/queue/enqueue", {"value": 1}, headers=parent).status == 200
        message = ask(server, "GET", "/keyval/api/queue/poll").json["message"]
        ask(server, "POST", "/keyval/api/queue/ack", {"id": message["id"]}, headers=parent)
    sent, received, acked = exporter.get_finished_spans()
    assert [span.name for span in (sent, received, acked)] == ["send keyval", "receive keyval", "ack"]
    assert trace_of(sent) == trace_of(acked) == TRACE
    assert [f"{link.context.trace_id:032x}" for link in received.links] == [TRACE]
