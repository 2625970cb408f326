"""Which messages a replay takes: by queue, id, reason or outcome, time and error."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

import msgspec

from rowq.errors import InvalidArgument
from rowq.model.message import Message
from rowq.model.queue import check_own_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """All messages that match every given field. Times are milliseconds since 1970: of the death of a dead letter, or of the end of an
    archived message; `since_ms` is included, `until_ms` is not."""

    queue: str
    ids: tuple[str, ...] = ()
    reason: str | None = None
    """For dead letters only."""
    outcome: str | None = None
    """For archived messages only."""
    error: str | None = None
    """A regular expression to find anywhere in the last error."""
    since_ms: int | None = None
    until_ms: int | None = None

    def __post_init__(self) -> None:
        check_own_name(self.queue)
        try:
            re.compile(self.error or "")
        except (re.error, OverflowError, RecursionError) as error:
            raise InvalidArgument(f"{self.error!r} is not a regular expression: {error}") from None

    def digest(self, *others: str) -> int:
        """Identifies the choice."""
        data = msgspec.json.encode([msgspec.to_builtins(self), *others])
        return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest()) >> 2

    def takes(self, letter: Message) -> bool:
        """Whether a dead letter matches."""
        at = letter.died_at or 0
        return (
            (not self.ids or letter.id in self.ids)
            and self.reason in (None, letter.reason)
            and (self.error is None or re.search(self.error, letter.error or "") is not None)
            and (self.since_ms is None or at >= self.since_ms)
            and (self.until_ms is None or at < self.until_ms)
        )

    def among(self, history: DataFrame) -> DataFrame:
        """The archived messages that match."""
        from pyspark.sql import functions as F  # noqa: N812

        frame = history.where(F.col("queue") == self.queue)
        if self.ids:
            frame = frame.where(F.col("id").isin(*self.ids))
        if self.outcome is not None:
            frame = frame.where(F.col("outcome") == self.outcome)
        if self.error is not None:
            frame = frame.where(F.coalesce(F.col("error"), F.lit("")).rlike(self.error))
        if self.since_ms is not None:
            frame = frame.where(F.col("finished_at") >= F.timestamp_millis(F.lit(self.since_ms)))
        if self.until_ms is not None:
            frame = frame.where(F.col("finished_at") < F.timestamp_millis(F.lit(self.until_ms)))
        return frame


def check_replay_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise InvalidArgument(f"{name!r} is not a name for a replay: use 1 to 64 of the characters A-Z a-z 0-9 . _ -")
    return name


def check_rate(rate: float | None) -> float | None:
    if rate is not None and not 0 < rate < float("inf"):
        raise InvalidArgument(f"a rate is a number of messages a second, more than 0, not {rate!r}")
    return rate
