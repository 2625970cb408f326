"""What comes over a wire: bodies and queries of requests, those of the compatible APIs, answers to a client, hints between processes."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec

from rowq.client import bodies as of_client
from rowq.client.http import Answer, Garbled, Reader
from rowq.client.insights import _message, _messages, _queue, _stats
from rowq.client.problem import error_of, is_not_now
from rowq.errors import RowqError
from rowq.model.draft import Prepared
from rowq.model.member import to_share
from rowq.model.queue import Settings, change
from rowq.server.api import hot_routes
from rowq.server.api.events import one_line, to_key
from rowq.server.api.routes import ROUTES
from rowq.server.compat.forq import api as forq
from rowq.server.compat.keyval import format
from rowq.server.compat.queueti import api as queueti
from rowq.server.compat.queueti.listing import PageQuery
from rowq.server.http.errors import to_answer
from rowq.server.http.http2_stream import read_request
from rowq.server.http.reading import decode, read_query, split_query
from rowq.store.notify.notifier import Notification
from rowq.store.notify.redis import _FORMAT, _Listener
from rowq.store.postgresql.notifier import PostgresqlNotifier
from rowq.wire import MessageBody, SettingsBody, to_messages, to_prepared, to_settings
from tests.fuzz.target import refusing, target, text_target

_BODIES: dict[Any, msgspec.json.Decoder[Any]] = {route.body: msgspec.json.Decoder(route.body) for route in ROUTES if route.body is not None}
_QUERIES = tuple({route.query for route in ROUTES if route.query is not None})


@target(
    '{"payload":{"to":"ada"},"key":"k","group":"g","priority":-5,"delay_ms":1,"ttl_ms":2,"deadline_ms":3,"max_attempts":4,"id":"a:1"}',
    '{"payload_base64":"AAEC","backoff_ms":[1,2],"headers":{"a":"b"},"keys_if_undelivered":[["a",1],"b"]}',
    '{"messages":[{"payload":1,"at_ms":1767225600000},{"payload":null,"backoff_ms":{"kind":"exponential","base_ms":1,"factor":2.5}}]}',
    '{"payload":' + "[" * 250 + "]" * 250 + "}",
)
def sends(data: bytes) -> None:
    """What is accepted goes out by the client as the same messages."""
    with refusing():
        messages = to_messages("q", decode(data, hot_routes._send_body))
        again = to_messages("q", decode(of_client.many_body(messages), hot_routes._send_body))
        assert [_meaning(message) for message in again] == [_meaning(message) for message in messages]


def _meaning(message: Prepared) -> dict[str, Any]:
    fields = msgspec.structs.asdict(message)
    for name in ("headers", "backoff", "kv_keys"):
        fields[name] = fields[name] and msgspec.json.decode(fields[name])
    return fields


@target(
    '{"receipts":["0190163d-8694-7000-8000-00000000002a.1f0c5a7e9b3d2468"],"reason":"no","delay_ms":1,"counts":false}',
    '{"max":10,"wait_ms":5,"lease_ms":1000,"consumer":"c","delivery":"at_most_once","share":[0,2]}',
    '{"lease_ms":1000,"backoff_ms":[1],"schema":{"type":"object"},"keep":null,"paused":true}',
    '{"ids":["a"],"reason":"rejected","died_after":1,"limit":5,"rate":2.5,"fingerprint":"x"}',
    '{"name":"worker","scopes":["receive"],"queues":["orders.*"]}',
)
def requests(data: bytes) -> None:
    for decoder in _BODIES.values():
        with refusing():
            body: Any = decode(data, decoder)
            if isinstance(body, SettingsBody):
                change(Settings(), **to_settings(body))
            if getattr(body, "share", None) is not None:
                to_share(body.share, from_dead=False)
    for settling in hot_routes.SETTLES.values():
        with refusing():
            settling.settlement(decode(data, settling.decoder))


@target(
    "state=dead&limit=10&after=WyJ&key=a%20b&newest=true", "prefix=%5B%22a%22%5D&ping_ms=1000", "topic=orders.dlq&offset=3", "token=1&q=%ff"
)
def queries(data: bytes) -> None:
    for kind in _QUERIES:
        with refusing():
            read_query(data, kind, frozenset({"queue"}))
    with suppress(ValueError):
        fields = dict(split_query(data))
        for kind in (format.Page, PageQuery):
            with suppress(msgspec.ValidationError):
                msgspec.convert(fields, kind, strict=False)
        with refusing():
            format.read_prefixes(fields)
        to_key(fields.get("prefix"))


@target(
    '{"content":"hello","processAfter":1767225600000}',
    '{"value":{"a":1},"options":{"delay":5.5,"backoffSchedule":[1,2],"keysIfUndelivered":[["a",1]],"priority":1}}',
    '{"id":"a","receipt":"b","error":"c","consumer_group":""}',
    '{"topic":"orders","payload":"AAEC","metadata":{"a":"b"},"key":"k","count":2,"visibility_timeout_seconds":5}',
    '{"max_retries":3,"message_ttl_seconds":5,"max_depth":0,"replayable":false}',
)
def compat(data: bytes) -> None:
    with refusing():
        forq._delay(decode(data, forq._new_message).processAfter, 1_767_225_600_000)
    with refusing():
        body = format.read_message(data)
        to_prepared("q", MessageBody(payload=body.value))
    with refusing():
        format.read_settlement(data)
    decoders: tuple[msgspec.json.Decoder[Any], ...] = (queueti._enqueue, queueti._dequeue, queueti._settle)
    for decoder in decoders:
        with refusing():
            decode(data, decoder)
    with refusing():
        config = decode(data, queueti._config)
        options = queueti.Options()
        settings = change(Settings(), **options.settings(config))
        assert options.settings(options.config(settings)) == options.settings(config)


@target(
    '{"deliveries":[{"id":"a","receipt":"b","queue":"q","attempt":1,"lease_until":2,"sent_at":1,"headers":{},"priority":0,"key":null,'
    '"group":null,"payload":1}]}',
    '{"deliveries":[{"id":"a","receipt":"b","queue":"q","attempt":1,"lease_until":2,"sent_at":1,"headers":{},"priority":0,"key":null,'
    '"group":null,"payload_base64":"AA=="}]}',
    '{"results":[{"receipt":"a","outcome":"done","lease_until":5}]}',
    '{"code":"lease_lost","error":"gone"}',
    '{"id":"a","queue":"q","state":"ready","attempts":0,"sent_at":1,"priority":0,"headers":{},"cursor":"","payload":[1]}',
)
def answers(data: bytes) -> None:
    """A client that asks the wrong server hears so in words of ours."""
    answer = Answer(200, data)
    for read in (of_client.read_deliveries, of_client.read_results, _message, _messages, _queue, _stats):
        with refusing():
            found: Any = read(answer)
            if read is _message:
                of_client.to_message(found)
    assert isinstance(error_of(Answer(503, data), "here"), RowqError)
    is_not_now(Answer(503, data))


@target(
    b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nretry-after: 12\r\n\r\n{}",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    b"HTTP/1.1 101 Switching\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\nx",
)
def responses(data: bytes) -> None:
    """An answer is the same however its bytes come: at once, or one by one. Only whoever reads further than it may stumble there."""
    at_once = _heard([data])
    assert at_once in (Garbled, _heard([data[at : at + 1] for at in range(len(data))]))


def _heard(pieces: list[bytes]) -> object:
    reader = Reader()
    try:
        for piece in pieces:
            if reader.is_complete:
                break
            reader.feed(piece)
    except Garbled:
        return Garbled
    answer = reader.answer()
    return (answer.status, answer.body, answer.retry_after) if reader.is_complete else None


@target('["sender",[{"orders":[3,[0,42]]},false]]', '["sender",[{},true]]', '["a",[{"q":[1,null]}]]', b"\x92\xa1a\x92\x80\xc3")
def hints(data: bytes) -> None:
    """Anybody may write on a channel. What is no hint is passed over, and whoever listens goes on."""
    nobody: Any = None
    heard: list[Notification] = []
    on_postgresql = PostgresqlNotifier(nobody, nobody, "channel")
    on_postgresql.listen(heard.append)
    on_postgresql._take(data.decode("utf-8", "surrogateescape"))
    notification = _Listener(nobody, "channel", "me", nobody)._read([b"message", b"channel", _FORMAT + data])
    for each in (*heard, *filter(None, [notification])):
        assert all(-(1 << 62) <= number <= 1 << 62 for _, place in each.ready.values() for number in place or ())


@text_target("GET\n/v1/queues/q?x=%20\nlocalhost", "POST\n*\n", "get\n/\x7f\n")
def fields_of_http2(text: str) -> None:
    method, _, rest = text.partition("\n")
    path, _, host = rest.partition("\n")
    fields = [(b":method", method), (b":path", path), (b":authority", host), (b"host", host), (b"x", path)]
    scope, fault = read_request([(name, value.encode("utf-8", "surrogateescape")) for name, value in fields], 2_000)
    assert fault is not None or scope["raw_path"].startswith((b"/", b"*"))


@target("a\nb\r\nc", '{"a": "b"}')
def refusals(data: bytes) -> None:
    """Whatever an error says, it can be told."""
    status, body, _ = to_answer(RowqError(data.decode("utf-8", "surrogateescape")))
    assert status == 500 and msgspec.json.decode(body)["code"] == "internal"
    assert b"\n" not in one_line(data)
