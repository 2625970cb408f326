"""The text form of settings, on the command line and in forms: a lease is `30s`, a backoff `1s,5s`. Parsing reverses writing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from rowq.errors import InvalidArgument
from rowq.model.draft import to_backoff
from rowq.model.duration import optional_ms, read_seconds, to_ms
from rowq.model.queue import SETTINGS, Setting, SettingKind
from rowq.model.retry import Backoff, Delays, Exponential, Linear, exponential, linear


def parse_setting(name: str, text: str) -> Any:
    """The value for `Settings`; None, which restores the default, for `none` or empty text, unless none is a choice of the setting."""
    setting = _known(name)
    written = text.strip()
    if written == "" or (written == "none" and "none" not in setting.choices):
        return None
    try:
        value = _choice(setting, written) if setting.choices else _READERS[setting.kind](written)
    except InvalidArgument as error:
        raise InvalidArgument(f"{name}: {error}") from None
    return to_changes({name: value})[setting.field]


def write_setting(name: str, value: Any) -> str:
    """The text that parse_setting reads as this value; empty for None."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case int() if _known(name).kind == "duration":
            return write_duration(value)
        case Delays() | Linear() | Exponential():
            return _write_backoff(value)
        case dict():
            return msgspec.json.encode(value).decode()
    return str(value)


def read_duration(text: str) -> float:
    """Seconds, from `30`, `1.5`, `500ms`, `10s`, `5m`, `2h` or `7d`."""
    seconds = read_seconds(text)
    if seconds is None:
        raise InvalidArgument(f"{text!r} is not a duration: write 30, 1.5, 500ms, 10s, 5m, 2h or 7d")
    return seconds


def write_duration(milliseconds: int) -> str:
    """The exact duration: 90s, 1500ms."""
    for unit, size in _UNITS_MS:
        if milliseconds and milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    return "0s"


def read_backoff(text: str) -> Backoff:
    """`1s,5s,30s`, `at once`, `linear:5s`, `exponential:1s,factor=3,cap=1h,jitter=0.2,plus=0s-5s`, or the JSON of a policy."""
    written = text.strip()
    try:
        if written.startswith("{"):
            return _backoffs.decode(written)
        if written == _AT_ONCE:
            return Delays()
        kind, colon, rest = written.partition(":")
        if not colon:
            return Delays(tuple(to_ms(read_duration(part), "a delay") for part in written.split(",")))
        first, *pairs = rest.split(",")
        return _POLICIES[kind](read_duration(first), **dict(_policy_option(pair) for pair in pairs))
    except (InvalidArgument, KeyError, TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        why = f"{kind} does not have all of these options" if isinstance(error, TypeError) else error
        raise InvalidArgument(
            f"{text!r} is not a backoff ({why}): write 1s,5s,30s or linear:5s or exponential:1s,factor=2,cap=1h,jitter=0.1"
        ) from None


_UNITS_MS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1))
_AT_ONCE = "at once"
_POLICIES: dict[str, Callable[..., Backoff]] = {"linear": linear, "exponential": exponential}
_backoffs: msgspec.json.Decoder[Backoff] = msgspec.json.Decoder(Backoff)


def _policy_option(pair: str) -> tuple[str, Any]:
    name, _, given = pair.partition("=")
    if name == "plus":
        return name, tuple(read_duration(bound) for bound in given.split("-"))
    return name, float(given) if name in ("factor", "jitter") else read_duration(given)


def _write_backoff(backoff: Backoff) -> str:
    match backoff:
        case Delays(delays_ms=delays):
            return ",".join(map(write_duration, delays)) or _AT_ONCE
        case Linear(step_ms=step, cap_ms=cap):
            return f"linear:{write_duration(step)},cap={write_duration(cap)}"
        case Exponential(base_ms=base, factor=factor, cap_ms=cap, jitter=jitter, plus_ms=(low, high)):
            plus = f",plus={write_duration(low)}-{write_duration(high)}" if (low, high) != (0, 0) else ""
            return f"exponential:{write_duration(base)},factor={_short(factor)},cap={write_duration(cap)},jitter={_short(jitter)}{plus}"


def _short(number: float) -> str:
    return str(int(number)) if number == int(number) else repr(number)


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidArgument(f"{text!r} is not a whole number") from None


def _switch(text: str) -> bool:
    if text.lower() not in _TRUE + _FALSE:
        raise InvalidArgument(f"{text!r} is neither true nor false")
    return text.lower() in _TRUE


def _choice(setting: Setting, text: str) -> str:
    if text not in setting.choices:
        raise InvalidArgument(f"{text!r} is not one of {', '.join(setting.choices)}")
    return text


def _schema(text: str) -> Any:
    try:
        return msgspec.json.decode(text.encode(errors="surrogateescape"))
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise InvalidArgument(f"this is not JSON ({error})") from None


_TRUE = ("true", "yes", "on", "1")
_FALSE = ("false", "no", "off", "0")
_READERS: dict[SettingKind, Callable[[str], Any]] = {
    "duration": read_duration,
    "number": _number,
    "switch": _switch,
    "backoff": read_backoff,
    "schema": _schema,
}


def _known(name: str) -> Setting:
    if name not in SETTINGS:
        raise InvalidArgument(f"unknown setting {name!r}; settings are: {', '.join(SETTINGS)}")
    return SETTINGS[name]


def to_changes(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings in Python form (seconds) as fields of `Settings` (milliseconds)."""
    changes: dict[str, Any] = {}
    for name, value in settings.items():
        setting = _known(name)
        if setting.kind == "duration":
            changes[setting.field] = optional_ms(value, name, least=setting.least_ms)
        elif setting.kind == "backoff" and value is not None:
            changes[setting.field] = to_backoff(value)
        else:
            changes[setting.field] = value
    return changes
