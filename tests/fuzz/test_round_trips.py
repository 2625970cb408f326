"""What is written is read again as the same, whatever it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import settings as searching
from hypothesis import strategies as st

from rowq.client import bodies
from rowq.ids import message_id, message_ids, origin_of, read_receipt, receipt_of_delivery
from rowq.model.cron import read_cron
from rowq.model.draft import prepare
from rowq.model.message import Draft, Message, State
from rowq.model.payload import check_encoded, decode, encode
from rowq.model.queue import SETTINGS, Settings, change
from rowq.model.retry import Backoff
from rowq.model.settings_text import parse_setting, read_backoff, read_duration, write_duration, write_setting
from rowq.server.api import hot_routes
from rowq.server.auth.token import Tokens
from rowq.server.compat.queueti.topic import Options, TopicConfig
from rowq.server.http.reading import decode as decode_body
from rowq.spark.pipeline.manifest import File, Range, Version
from rowq.store.notify import redis
from rowq.store.notify.notifier import Notification
from rowq.store.policy import read_settings
from rowq.store.postgresql import notifier
from rowq.store.row import read_cursor, write_cursor
from rowq.transfer import line
from rowq.wire import MessageLook, SettingsBody, of_message, of_settings, to_messages, to_settings
from tests.fuzz import made_up
from tests.fuzz.bodies import _meaning

ROUND_TRIPS: dict[str, Callable[[], None]] = {}
"""Each of them with values that are made up anew."""


def for_all(*kinds: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A quarter of the usual number, the same values every time: there are many tests, and none is subtle."""

    def search(test: Callable[..., None]) -> Callable[..., None]:
        most = searching().max_examples
        ROUND_TRIPS[test.__name__] = searching(max_examples=most // 2)(given(*kinds)(test))
        return searching(max_examples=most // 4, derandomize=True, database=None)(given(*kinds)(test))

    return search


@for_all(made_up.seqs, made_up.moments.filter(lambda at: at < 1 << 48), made_up.tokens)
def test_ids_and_receipts(seq: int, at: int, token: int) -> None:
    id = message_id(seq, at)
    assert origin_of(id) == (seq, at) and message_ids(seq, 2, at) == [id, message_id(seq + 1, at)]
    receipt = f"{id}.{token:016x}"
    assert read_receipt(receipt) == receipt_of_delivery(receipt) == (seq, token)


@for_all(
    st.sampled_from(State), st.text(st.characters(exclude_categories=["Cs"])), st.integers(-(1 << 62) + 1, (1 << 62) - 1), made_up.seqs
)
def test_cursors(state: State, group: str, number: int, seq: int) -> None:
    place = group if state is State.BLOCKED else number
    assert read_cursor(state, write_cursor(state, place, seq)) == (place, seq)


@for_all(made_up.payloads)
def test_payloads(payload: Any) -> None:
    format, data = encode(payload)
    assert decode(format, check_encoded(data) if format else data) == payload


@for_all(made_up.millis)
def test_durations(ms: int) -> None:
    assert round(read_duration(write_duration(ms)) * 1000) == ms


@for_all(made_up.backoffs)
def test_backoffs(backoff: Backoff) -> None:
    assert read_backoff(write_setting("backoff", backoff)) == backoff
    assert msgspec.json.decode(prepare("q", Draft(1, backoff=backoff)).backoff or b"", type=Backoff) == backoff


@for_all(made_up.settings)
def test_settings(settings: Settings) -> None:
    for name, setting in SETTINGS.items():
        value = getattr(settings, setting.field)
        assert parse_setting(name, write_setting(name, value)) == value
    body = msgspec.json.decode(msgspec.json.encode(of_settings(settings)), type=SettingsBody)
    assert change(Settings(), **to_settings(body)) == settings
    assert read_settings(msgspec.json.encode(settings)) == settings


@for_all(st.lists(made_up.drafts, max_size=3))
def test_messages_to_a_server(drafts: list[Draft]) -> None:
    prepared = [prepare("q", draft) for draft in drafts]
    read = to_messages("q", decode_body(bodies.many_body(prepared), hot_routes._send_body))
    assert [_meaning(message) for message in read] == [_meaning(message) for message in prepared]


@for_all(made_up.messages)
def test_messages_from_a_server(message: Message) -> None:
    look = msgspec.json.decode(msgspec.json.encode(of_message(message)), type=MessageLook)
    assert bodies.to_message(look) == message


@for_all(made_up.messages)
def test_lines_of_a_dump(message: Message) -> None:
    queue, draft = line.reader(keep_ids=True)(msgspec.json.encode(line.to_line(message, 0)))
    prepared = prepare("q", draft)
    assert queue == message.queue and prepared.own_id == message.id and decode(prepared.format, prepared.payload) == message.payload
    assert (prepared.delay_ms, prepared.deadline_ms, prepared.ttl_ms) == (message.due_at or 0, message.deadline, message.ttl_ms)
    assert (draft.backoff, draft.key, draft.group, draft.headers or {}) == (message.backoff, message.key, message.group, message.headers)


@for_all(made_up.notification)
def test_hints(notification: Notification) -> None:
    heard: list[Notification] = []
    nobody: Any = None
    own = notifier.PostgresqlNotifier(nobody, nobody, "channel")
    own.listen(heard.append)
    own._take(notifier._write("somebody", notification))
    written = redis._FORMAT + redis._encoder.encode(("somebody", notification))
    listener = redis._Listener(nobody, "channel", "me", nobody)
    assert heard == [listener._read([b"message", b"channel", written])] == [notification]


@for_all(st.builds(TopicConfig, *[st.none() | st.integers(0, 1_000_000)] * 4))
def test_topic_configs(config: TopicConfig) -> None:
    options = Options()
    settings = change(Settings(), **options.settings(config))
    assert options.settings(options.config(settings)) == options.settings(config)


@for_all(st.from_regex(r"[A-Za-z0-9._-]{1,64}", fullmatch=True), st.binary(max_size=32), st.integers(0, 1 << 47))
def test_tokens(name: str, digest: bytes, now: int) -> None:
    tokens = Tokens(lambda: now)
    token, expires_at = tokens.issue(name, digest)
    assert expires_at > now and tokens.read(token, {name: digest}.get) == name
    assert Tokens(lambda: now).read(token, {name: digest}.get) is None


@for_all(st.builds(Version, segment=st.none() | st.builds(Range), add=st.lists(st.builds(File), max_size=3).map(tuple)))
def test_versions_of_a_lake(version: Version) -> None:
    assert msgspec.json.decode(msgspec.json.encode(version), type=Version) == version


@for_all(*(st.sets(st.integers(low, high), min_size=1, max_size=5) for low, high in ((0, 59), (0, 23), (1, 29), (1, 12), (0, 6))))
def test_schedules(minutes: set[int], hours: set[int], days: set[int], months: set[int], weekdays: set[int]) -> None:
    schedule = read_cron(" ".join(",".join(map(str, each)) for each in (minutes, hours, days, months, weekdays)))
    assert (schedule.minutes, schedule.hours) == (tuple(sorted(minutes)), tuple(sorted(hours)))
    assert set(schedule.days) == days and set(schedule.months) == months and set(schedule.weekdays) == weekdays


@pytest.mark.prove("twice as many values, and others every time; the test of that name stands for it")
@pytest.mark.parametrize("name", ROUND_TRIPS)
def test_with_other_values(name: str) -> None:
    ROUND_TRIPS[name]()
