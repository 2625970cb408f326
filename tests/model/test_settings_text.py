"""Settings as people write them: what is written is read as the same value, and what cannot be read is refused with a sentence."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowq import InvalidArgument, Settings
from rowq.model.queue import SETTINGS, Setting, SettingsOptions, change
from rowq.model.retry import Delays, Exponential, Linear
from rowq.model.settings_text import parse_setting, read_backoff, write_duration, write_setting

MILLIS = st.integers(0, 366 * 86_400_000)
BACKOFFS = st.one_of(
    st.builds(Delays, st.lists(MILLIS, max_size=5).map(tuple)),
    st.builds(Linear, MILLIS, MILLIS),
    st.builds(Exponential, MILLIS, st.floats(1, 1000), MILLIS, st.floats(0, 1), st.tuples(MILLIS, MILLIS)),
)
JSON = st.recursive(st.none() | st.booleans() | st.integers(-(1 << 53), 1 << 53) | st.text(), lambda inner: st.lists(inner, max_size=3))
BY_KIND: dict[str, st.SearchStrategy[Any]] = {
    "duration": st.integers(1, 366 * 86_400_000),
    "number": st.integers(1, 1 << 28),
    "switch": st.booleans(),
    "backoff": BACKOFFS,
    "schema": st.dictionaries(st.text(), JSON, max_size=3),
}


def values(setting: Setting) -> st.SearchStrategy[Any]:
    return st.sampled_from(setting.choices) if setting.choices else BY_KIND[setting.kind]


@pytest.mark.parametrize("name", SETTINGS)
@given(data=st.data())
def test_what_is_written_is_read_as_the_same(name: str, data: st.DataObject) -> None:
    value = data.draw(values(SETTINGS[name]) | st.none())
    assert parse_setting(name, write_setting(name, value)) == value


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=lambda setting: setting.name)
def test_a_setting_that_was_read_can_be_set(setting: Setting) -> None:
    written = setting.choices[0] if setting.choices else {"switch": "yes", "schema": "{}"}.get(setting.kind, "3")
    assert getattr(change(Settings(), **{setting.field: parse_setting(setting.name, written)}), setting.field) is not None


def test_every_setting_is_known_with_a_sentence_of_help() -> None:
    assert list(SETTINGS) == list(SettingsOptions.__annotations__)
    assert [setting.field for setting in SETTINGS.values()] == list(Settings.__struct_fields__)
    assert all(setting.help.endswith(".") for setting in SETTINGS.values())


@pytest.mark.parametrize(
    ("name", "written", "value"),
    [
        ("lease", " 90s ", 90_000),
        ("ttl", "0", 0),
        ("max_attempts", "9", 9),
        ("audit", "Off", False),
        ("paused", "yes", True),
        ("keep", "none", "none"),
        ("keep", "", None),
        ("lease", "none", None),
        ("schema", '{"type": "object"}', {"type": "object"}),
        ("backoff", "1s,5s,500ms", Delays((1000, 5000, 500))),
        ("backoff", "10", Delays((10_000,))),
        ("backoff", "at once", Delays()),
        ("backoff", "linear:5s,cap=1m", Linear(5000, 60_000)),
        ("backoff", "exponential:1s,factor=3,cap=1h,jitter=0.2,plus=0s-5s", Exponential(1000, 3.0, 3_600_000, 0.2, (0, 5000))),
        ("backoff", '{"kind":"exponential","base_ms":250}', Exponential(250)),
    ],
)
def test_values_are_read_as_people_write_them(name: str, written: str, value: Any) -> None:
    assert parse_setting(name, written) == value


def test_durations_are_written_exactly() -> None:
    assert [write_duration(ms) for ms in (0, 1500, 90_000, 604_800_000)] == ["0s", "1500ms", "90s", "7d"]


@pytest.mark.parametrize(
    ("name", "written", "sentence"),
    [
        ("lease", "soon", "lease: 'soon' is not a duration"),
        ("lease", "0", "lease must be between"),
        ("ttl", "400d", "ttl must be between"),
        ("max_attempts", "many", "max_attempts: 'many' is not a whole number"),
        ("audit", "perhaps", "neither true nor false"),
        ("on_expire", "explode", "not one of dead, expired, delete"),
        ("schema", "{", "schema: this is not JSON"),
        ("backoff", "400d", "must be between"),
        ("colour", "red", "unknown setting 'colour'"),
    ],
)
def test_what_cannot_be_read_is_refused(name: str, written: str, sentence: str) -> None:
    with pytest.raises(InvalidArgument, match=sentence):
        parse_setting(name, written)


@pytest.mark.parametrize(
    "written",
    [
        "",
        "1s,",
        "soon",
        "cubic:1s",
        "linear:",
        "linear:5s,factor=2",
        "exponential:1s,jitter=much",
        "exponential:1s,plus=5s",
        "{}",
        '{"kind":"x"}',
        pytest.param('{"kind":' * 5_000, id="too deep"),
    ],
)
def test_what_is_no_backoff_is_refused(written: str) -> None:
    with pytest.raises(InvalidArgument, match="not a backoff"):
        read_backoff(written)
