"""What is written on the command line, turned into values: durations, backoffs, headers, payloads."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from io import BufferedIOBase
from pathlib import Path
from typing import Any, cast

import msgspec
import typer

import rowq
from rowq.model.duration import read_seconds
from rowq.model.retry import Backoff, Delays

_MOST_BYTES = 256 << 20
_POLICIES: dict[str, Callable[..., Backoff]] = {"linear": rowq.linear, "exponential": rowq.exponential}
_backoffs: msgspec.json.Decoder[Backoff] = msgspec.json.Decoder(Backoff)


def duration(text: str) -> float:
    """Seconds, from `30`, `1.5`, `500ms`, `10s`, `5m`, `2h` or `7d`."""
    seconds = read_seconds(text)
    if seconds is None:
        raise typer.BadParameter(f"{text!r} is no duration: write 30, 1.5, 500ms, 10s, 5m, 2h or 7d")
    return seconds


def backoff(text: str) -> Backoff:
    """`1s,5s,30s`, `linear:5s`, `exponential:1s,factor=3,cap=1h,jitter=0.2`, or the JSON that `configure --json` shows."""
    text = text.strip()
    try:
        if text.startswith("{"):
            return _backoffs.decode(text)
        kind, colon, rest = text.partition(":")
        if not colon:
            return Delays(tuple(round(duration(part) * 1000) for part in text.split(",")))
        first, *pairs = rest.split(",")
        options = dict(_policy_option(pair) for pair in pairs)
        return _POLICIES[kind](duration(first), **options)
    except (KeyError, TypeError, ValueError, msgspec.MsgspecError):
        raise typer.BadParameter(
            f"{text!r} is no backoff: write 1s,5s,30s or linear:5s or exponential:1s,factor=2,cap=1h,jitter=0.1"
        ) from None


def _policy_option(pair: str) -> tuple[str, float]:
    name, _, given = pair.partition("=")
    return name, float(given) if name in ("factor", "jitter") else duration(given)


def headers(pairs: list[str] | None) -> dict[str, str] | None:
    """`name=value` pairs; the value may contain further `=`."""
    if not pairs:
        return None
    for pair in pairs:
        if "=" not in pair:
            raise rowq.InvalidArgument(f"{pair!r} is no header: write --header name=value")
    return {name: value for name, _, value in (pair.partition("=") for pair in pairs)}


def payload(data: bytes, *, text: bool, raw: bool) -> Any:
    """JSON, unless it was said to be text or bytes: what a payload is never depends on what it looks like."""
    if raw:
        return data
    try:
        return data.decode() if text else msgspec.json.decode(data)
    except UnicodeDecodeError:
        raise rowq.InvalidArgument("the payload is not UTF-8: send it with --bytes") from None
    except (msgspec.MsgspecError, RecursionError) as error:
        raise rowq.InvalidArgument(f"the payload is not JSON ({error}): quote it as JSON, or send it with --text or --bytes") from None


def payload_data(argument: str | None, file: Path | None) -> bytes:
    """The bytes of a payload: from the argument, from a file, or from stdin (`-`)."""
    if (argument is None) == (file is None):
        raise rowq.InvalidArgument("give one payload: as an argument, as --file FILE, or as - for stdin")
    if argument is not None and argument != "-":
        return os.fsencode(argument)
    if file is None or str(file) == "-":
        return _bounded(stdin().read(_MOST_BYTES + 1))
    return read_file(file)


def stdin() -> BufferedIOBase:
    if sys.stdin is None:
        raise rowq.InvalidArgument("there is nothing to read: stdin is closed")
    return cast("BufferedIOBase", sys.stdin.buffer)


def read_file(file: Path) -> bytes:
    """A file that the user named; not being able to read it is a wrong argument."""
    try:
        with file.open("rb") as source:
            return _bounded(source.read(_MOST_BYTES + 1))
    except OSError as error:
        raise rowq.InvalidArgument(f"{file} cannot be read: {error.strerror}") from None


def _bounded(data: bytes) -> bytes:
    if len(data) > _MOST_BYTES:
        raise rowq.PayloadTooLarge(f"the payload is over {_MOST_BYTES >> 20} MB, more than any queue takes: send a reference to it instead")
    return data
