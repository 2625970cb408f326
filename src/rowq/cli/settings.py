"""The settings of a queue as the command line writes and shows them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import msgspec
import typer

import rowq
from rowq.cli import value
from rowq.cli.output import Column, Output
from rowq.cli.text import exact_span, shortened
from rowq.model.message import SettingsOptions
from rowq.model.retry import Backoff, Delays, Exponential, Linear

_TRUE = ("true", "yes", "on", "1")
_FALSE = ("false", "no", "off", "0")


def read_pairs(pairs: list[str]) -> SettingsOptions:
    """`name=value` pairs as options of configure. `none` or nothing goes back to the default, except where none is a value of its own."""
    options: dict[str, Any] = {}
    for pair in pairs:
        name, equals, given = pair.partition("=")
        if not equals:
            raise rowq.InvalidArgument(f"{pair!r} is no setting: write name=value")
        if name not in SETTINGS:
            raise rowq.InvalidArgument(f"unknown setting {name!r}; settings are: {', '.join(SETTINGS)}")
        unset = given == "" or (given == "none" and name not in _NONE_IS_A_VALUE)
        options[name] = None if unset else _read(name, given)
    return cast("SettingsOptions", options)


def show_settings(output: Output, queue: str, settings: rowq.Settings, policy: rowq.Policy) -> None:
    """Every setting, the value that holds and where it comes from; a backoff list also says how many attempts there are."""
    defaults = rowq.Policy()
    shown = {}
    for name in settings.__struct_fields__:
        holds = getattr(policy, name)
        is_own = getattr(settings, name) is not None or holds != getattr(defaults, name)
        shown[name] = {"value": holds, "origin": "queue" if is_own else "default"}
    if output.json:
        output.document({"queue": queue, "settings": shown})
        return
    columns = (Column("setting", style="cyan"), Column("value", flexible=True), Column("from"))
    output.table(columns, ([name.removesuffix("_ms"), _written(name, entry["value"]), entry["origin"]] for name, entry in shown.items()))


def _read(name: str, given: str) -> Any:
    try:
        return SETTINGS[name](given)
    except typer.BadParameter as error:
        raise rowq.InvalidArgument(f"{name}: {error}") from None


def _number(given: str) -> int:
    try:
        return int(given)
    except ValueError:
        raise typer.BadParameter(f"{given!r} is no whole number") from None


def _switch(given: str) -> bool:
    if given.lower() not in _TRUE + _FALSE:
        raise typer.BadParameter(f"{given!r} is neither true nor false")
    return given.lower() in _TRUE


def _schema(given: str) -> Any:
    data = value.read_file(Path(given[1:])) if given.startswith("@") else given.encode(errors="surrogateescape")
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise typer.BadParameter(f"this is no JSON ({error}); a file is named as schema=@FILE") from None


SETTINGS: dict[str, Callable[[str], Any]] = {
    "lease": value.duration,
    "max_attempts": _number,
    "backoff": value.backoff,
    "ttl": value.duration,
    "ttl_from": str,
    "refresh_ttl": _switch,
    "on_expire": str,
    "on_exhausted": str,
    "delivery": str,
    "order": str,
    "count_lease_expiry": _switch,
    "lease_expiry_backoff": str,
    "require_receipt": _switch,
    "max_depth": _number,
    "throughput_limit": _number,
    "max_payload_bytes": _number,
    "schema": _schema,
    "keep": str,
    "retention": value.duration,
    "audit": _switch,
    "audit_retention": value.duration,
    "dlq_ttl": value.duration,
    "dlq_exhausted": str,
    "paused": _switch,
}
_NONE_IS_A_VALUE = ("keep", "lease_expiry_backoff")


def _written(name: str, given: Any) -> str:
    match given:
        case None:
            return "none"
        case bool():
            return "true" if given else "false"
        case 0:
            return "0 (no limit)"
        case int() if name.endswith("_ms"):
            return exact_span(given)
        case Delays() | Linear() | Exponential():
            return _policy(given)
        case dict():
            return shortened(msgspec.json.encode(given).decode())
    return str(given)


def _policy(backoff: Backoff) -> str:
    match backoff:
        case Delays(delays_ms=delays):
            return ",".join(map(exact_span, delays)) or "at once"
        case Linear(step_ms=step, cap_ms=cap):
            return f"linear:{exact_span(step)},cap={exact_span(cap)}"
        case Exponential(base_ms=base, factor=factor, cap_ms=cap, jitter=jitter):
            return f"exponential:{exact_span(base)},factor={factor:g},cap={exact_span(cap)},jitter={jitter:g}"
