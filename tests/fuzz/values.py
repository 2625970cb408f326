"""Single values: receipts, ids, cursors, schedules, durations, moments, settings, payloads, schemas, names of keys."""

from __future__ import annotations

import base64
import fnmatch
import re
import unicodedata
from datetime import UTC, datetime

import msgspec

from rowq.cli import parameter as of_command
from rowq.cli.parameter import moment
from rowq.cli.queues import read_pairs
from rowq.cli.text import indented, preview, visible, whole
from rowq.engine.arguments import to_receipt_or_none
from rowq.ids import MAX_SEQ, message_id, origin_of, read_receipt, receipt_of_delivery
from rowq.model.access import ApiKey, check_key_name, reaches, to_key
from rowq.model.cron import read_cron
from rowq.model.duration import read_seconds, to_ms
from rowq.model.fingerprint import MOST, fingerprint
from rowq.model.message import State
from rowq.model.payload import check_encoded, decode, encode, from_base64
from rowq.model.queue import SETTINGS, Settings, change, check_name, resolve, split_name
from rowq.model.settings_text import parse_setting, read_backoff, write_setting
from rowq.model.text import clean_text, is_text
from rowq.server.auth.authentication import _read_authorization
from rowq.server.auth.lockout import _place
from rowq.server.auth.loopback import is_local_host, is_local_origin, is_loopback
from rowq.server.auth.token import Tokens, token_in
from rowq.store.policy import Known, check_payload, check_schema, read_settings
from rowq.store.row import read_cursor, write_cursor
from tests.fuzz.target import refusing, target, text_target

_ID = "0190163d-8694-7000-8000-00000000002a"
_NOW = 1_767_225_600_000


@text_target(f"{_ID}.1f0c5a7e9b3d2468", "0190163d-8694-7000-bfff-ffffffffffff.7fffffffffffffff", _ID)
def receipts(text: str) -> None:
    with refusing():
        seq, token = read_receipt(text)
        assert 0 <= seq <= MAX_SEQ and 0 <= token < 1 << 63
        assert to_receipt_or_none(text) == receipt_of_delivery(text) == (seq, token)
        assert text == f"{message_id(seq, int(text[:8] + text[9:13], 16))}.{token:016x}"
        return
    assert to_receipt_or_none(text) == (-1, -1)


@text_target(_ID, "ffffffff-ffff-7000-bfff-ffffffffffff", "00000000-0000-7000-8000-000000000000")
def ids(text: str) -> None:
    origin = origin_of(text)
    assert origin is None or message_id(origin.seq, origin.sent_at) == text


@text_target("WyJyZWFkeSIsMCw0Ml0", write_cursor(State.BLOCKED, "a group", 7), write_cursor(State.DEAD, -(1 << 61), 1))
def cursors(text: str) -> None:
    for state in State:
        with refusing():
            a, b = read_cursor(state, text)
            assert isinstance(a, str if state is State.BLOCKED else int) and -(1 << 62) < b < 1 << 62
            assert not isinstance(a, str) or is_text(a)
            assert read_cursor(state, write_cursor(state, a, b)) == (a, b)


@text_target("*/15 0-6 1,15 jan-mar mon", "@daily", "0 0 29 2 *", "59 23 31 12 7", "? ? ? ? ?", "0/7 */2 10-20/3 * sun,tue-thu")
def cron(text: str) -> None:
    with refusing():
        schedule = read_cron(text)
        at = _NOW
        for _ in range(3):
            following = schedule.next(at)
            assert following > at and following % 60_000 == 0
            when = datetime.fromtimestamp(following / 1000, UTC)
            assert when.minute in schedule.minutes and when.hour in schedule.hours and when.month in schedule.months
            is_day, is_weekday = when.day in schedule.days, when.isoweekday() % 7 in schedule.weekdays
            assert (is_day or is_weekday) if schedule.is_either else (is_day and is_weekday)
            at = following


@text_target("30", "1.5", "500ms", "10s", "5m", "2h", "7d", "0.000000001d")
def durations(text: str) -> None:
    seconds = read_seconds(text)
    if seconds is not None:
        assert seconds >= 0
        with refusing():
            assert to_ms(seconds, "it") >= 0
    with refusing():
        assert of_command.duration(text) == seconds


@text_target("2h", "2026-01-31", "2026-01-31T09:30Z", "1767225600000", "0001-01-01T00:00+23:59", "9999-12-31T23:59:59.999999-23:59")
def moments(text: str) -> None:
    with refusing():
        assert moment(text) >= 0


@text_target("lease=30s", "backoff=1s,5s", 'schema={"type":"object"}', "audit=no", "keep=body", "max_depth=1000", "ttl=none", "paused=on")
def settings(text: str) -> None:
    name, _, given = text.partition("=")
    for each in (name,) if name in SETTINGS else (*SETTINGS, name):
        with refusing():
            value = parse_setting(each, given or text)
            changed = change(Settings(), **{SETTINGS[each].field: value})
            settled = getattr(changed, SETTINGS[each].field)
            assert parse_setting(each, write_setting(each, settled)) == settled
            resolve(changed)
            assert read_settings(msgspec.json.encode(changed)) == changed
        if each != "schema":  # whose value may name a file
            with refusing():
                read_pairs([f"{each}={given}"])


@text_target(
    "1s,5s,30s", "at once", "linear:5s,cap=1h", "exponential:1s,factor=3,cap=1h,jitter=0.2,plus=0s-5s", '{"kind":"list","delays_ms":[1]}'
)
def backoffs(text: str) -> None:
    with refusing():
        backoff = read_backoff(text)
        with refusing():
            change(Settings(), backoff=backoff)
            assert read_backoff(write_setting("backoff", backoff)) == backoff


@target('{"to":["ada",1,2.5,null,true]}', "[" * 150 + "]" * 150, '"\\u0000\\ud83d\\udc30"', "1e308", "-0.0", "12345678901234567890123")
def payloads(data: bytes) -> None:
    with refusing():
        check_encoded(data)
        value = decode(1, data)
        format, written = encode(value)
        assert format == 1 and decode(1, check_encoded(written)) == value
        preview(value), whole(value), indented(value)
    with refusing():
        assert from_base64(base64.b64encode(data).decode()) == data
        from_base64(data.decode("latin-1"))
    for text, raw in ((False, False), (True, False), (False, True)):
        with refusing():
            encode(of_command.payload(data, text=text, raw=raw))


@target(
    '{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}\n{"a":1}',
    '{"$ref":"#/$defs/a","$defs":{"a":{"pattern":"^a+$"}}}\n"aaa"',
    '{"$ref":"https://example.com/schema"}\n1',
    '{"anyOf":[{"$ref":"#"},{"not":{}}]}\n[[]]',
)
def schemas(data: bytes) -> None:
    written, _, payload = data.partition(b"\n")
    with refusing():
        schema = check_json(written)
        if isinstance(schema, dict):
            changed = change(Settings(), schema=schema)
            check_schema(changed.schema)
            check_payload(Known(changed, resolve(changed), True), check_json(payload or b"null"))


def check_json(data: bytes) -> object:
    return decode(1, check_encoded(data))


@text_target(
    "timeout after 31 s at 10.0.0.1:5432",
    "GET https://a.example/x?y=1 failed: 'no such user' ada@example.com",
    "0190163d-8694-7000-8000-00000000002a is gone since 2026-01-31T09:30:00.123+01:00",
    "C:\\Users\\ada\\x.txt and /var/lib/x/y.db and 0xDEADBEEF and 0123456789abcdef",
)
def fingerprints(text: str) -> None:
    found = fingerprint(text)
    assert len(found) <= MOST and found == fingerprint(text)


@text_target("orders.*\norders.eu", "*\na", "a*b*c\na-b-c", "*.*-*\n.-", "orders\norders.dlq")
def key_patterns(text: str) -> None:
    pattern, _, queue = text.partition("\n")
    with refusing():
        key = to_key("name", ["send"], [pattern], 0)
        name, _ = split_name(queue)
        meant = re.compile(fnmatch.translate(pattern.replace("[", "[[]"))).match(name) is not None
        assert reaches(key, queue) == (meant if name != queue or not queue.endswith((".dlq", "-dlq")) else reaches(key, name))


@text_target("orders", "orders.dlq", ".dlq", "a" * 64, "a" * 64 + "-dlq", "worker-1")
def names(text: str) -> None:
    with refusing():
        assert check_name(text) == text
        name, is_dead = split_name(text)
        assert text.startswith(name) and is_dead == (name != text)
    with refusing():
        assert check_key_name(text) == text and isinstance(to_key(text, ["admin"], ["*"], 0), ApiKey)
    assert is_text(clean_text(text))
    assert {unicodedata.category(character) for character in visible(text)}.isdisjoint({"Cc", "Cs", "Zl", "Zp"})


@target(
    "Bearer rowq_secret",
    "Basic YWRhOnJvd3FfYWRh",
    "token=18a.0.ada&x=1",
    "localhost:8080",
    "[::1]:80",
    "http://127.0.0.1:8080",
    "fe80::1%eth0",
)
def credentials(data: bytes) -> None:
    _read_authorization(data)
    is_local_host(data), is_local_origin(data), is_loopback(data.decode("latin-1")), _place(data.decode("latin-1"))
    tokens = Tokens(lambda: _NOW, b"secret")
    token = token_in(data)
    if token is not None:
        assert tokens.read(token, lambda _name: b"digest") is None, "nobody guesses a token"
    made, _ = tokens.issue("ada", b"digest")
    assert tokens.read(token_in(b"a=b&token=" + made.encode()) or "", lambda _name: b"digest") == "ada"
