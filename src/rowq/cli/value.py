"""Command-line text turned into values: durations, headers, payloads."""

from __future__ import annotations

import os
import re
import sys
from datetime import UTC, datetime
from io import BufferedIOBase
from pathlib import Path
from typing import Annotated, Any, cast

import msgspec
import typer

import rowq
from rowq.cli.hint import hint
from rowq.model.duration import moment_ms
from rowq.model.settings_text import read_duration

_MOST_BYTES = 256 << 20


def duration(text: str) -> float:
    """Seconds, from `30`, `1.5`, `500ms`, `10s`, `5m`, `2h` or `7d`; a wrong value is reported with the option's name."""
    try:
        return read_duration(text)
    except rowq.InvalidArgument as error:
        raise typer.BadParameter(str(error)) from None


def headers(pairs: list[str] | None) -> dict[str, str] | None:
    """`name=value` pairs; the value may contain further `=`."""
    if not pairs:
        return None
    for pair in pairs:
        if "=" not in pair:
            raise rowq.InvalidArgument(f"{pair!r} is not a header: write --header name=value")
    return {name: value for name, _, value in (pair.partition("=") for pair in pairs)}


def payload(data: bytes, *, text: bool, raw: bool) -> Any:
    """JSON unless declared as text or bytes: the type of a payload never depends on its content."""
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
    if sys.stdin.isatty():
        hint("reading what you type; Ctrl-D on a line of its own ends it")
    return cast("BufferedIOBase", sys.stdin.buffer)


def read_file(file: Path) -> bytes:
    """A file named by the user that cannot be read is a wrong argument."""
    try:
        with file.open("rb") as source:
            return _bounded(source.read(_MOST_BYTES + 1))
    except OSError as error:
        raise rowq.InvalidArgument(f"{file} cannot be read: {error.strerror}") from None


def _bounded(data: bytes) -> bytes:
    if len(data) > _MOST_BYTES:
        raise rowq.PayloadTooLarge(f"the payload is over {_MOST_BYTES >> 20} MB, more than any queue takes: send a reference to it instead")
    return data


_MILLISECONDS = re.compile(r"[0-9]{13,19}")
"""No duration has this many digits, and milliseconds since 1970 have had thirteen since 2001."""


def moment(text: str) -> int:
    """Milliseconds since 1970, from `2h` (ago), `2026-01-31`, `2026-01-31T09:30Z` or `1767225600000`. Without a timezone it is UTC."""
    text = text.strip()
    if _MILLISECONDS.fullmatch(text):
        return int(text)
    try:
        return max(0, rowq.SystemClock().now() - round(duration(text) * 1000))
    except typer.BadParameter:
        at = _written(text, "2h (ago), 2026-01-31, 2026-01-31T09:30Z or milliseconds since 1970")
        return moment_ms(at if at.tzinfo else at.replace(tzinfo=UTC), "this")


def coming(text: str) -> datetime:
    """A moment in the future. The verb that takes it checks for a timezone."""
    return _written(text.strip(), "2026-12-24T18:00+01:00 or 2026-12-24T17:00Z")


def _written(text: str, ways: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a moment: write {ways}") from None


Since = Annotated[
    int | None,
    typer.Option("--since", metavar="WHEN", parser=moment, help="Only messages sent since: 2h (ago), or a time such as 2026-01-31T09:30Z."),
]
Until = Annotated[int | None, typer.Option("--until", metavar="WHEN", parser=moment, help="Only messages sent before: as for --since.")]
At = Annotated[
    datetime | None, typer.Option("--at", metavar="WHEN", parser=coming, help="Not before this moment, such as 2026-12-24T18:00+01:00.")
]
