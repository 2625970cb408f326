"""Topics of queue-ti as queues: the options for all topics, a topic's own config, and the queue settings that result."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from rowq.errors import InvalidArgument
from rowq.model.cron import Cron, read_cron
from rowq.model.duration import LONGEST_MS, read_seconds, to_ms
from rowq.model.queue import Settings
from rowq.model.retry import Delays

Duration = str | float
"""Seconds, or text such as `30s` or `24h`."""
Retries = Annotated[int, Meta(ge=0, le=1_000_000)]
Count = Annotated[int, Meta(ge=0, le=1 << 31)]
Seconds = Annotated[int, Meta(ge=0, le=LONGEST_MS // 1000)]


class Options(Struct, frozen=True, forbid_unknown_fields=True):
    """The options of `[compat.queueti]`: defaults for topics, applied from their first message on."""

    visibility_timeout: Duration = "30s"
    max_retries: Retries = 3
    message_ttl: Duration = "24h"
    """0 is unlimited."""
    dlq_threshold: Retries | None = None
    """The nack that makes a dead letter: the one after the last retry. 0: no dead letters; the message fails."""
    delete_reaper_schedule: str = ""
    """A cron expression, UTC; empty is never."""

    def __post_init__(self) -> None:
        _to_ms(self.visibility_timeout, "visibility_timeout", least=1)
        _to_ms(self.message_ttl, "message_ttl")
        try:
            self.schedule()
        except InvalidArgument as error:
            raise ValueError(f"delete_reaper_schedule: {error}") from None

    def schedule(self) -> Cron | None:
        return read_cron(self.delete_reaper_schedule) if self.delete_reaper_schedule.strip() else None

    def beginning(self) -> dict[str, Any]:
        """The settings of a new topic."""
        return {
            "lease_ms": _to_ms(self.visibility_timeout, "visibility_timeout"),
            "backoff": Delays(),
            "ttl_from": "enqueue",
            "on_expire": "expired",
            "count_lease_expiry": False,
            "retention_ms": 0,
            **self.settings(TopicConfig()),
        }

    def settings(self, config: TopicConfig) -> dict[str, Any]:
        """The settings for a topic config. Defaults are written out too, so that they hold whatever the server's defaults are."""
        retries, ttl_ms = config.max_retries, _to_ms(self.message_ttl, "message_ttl")
        attempts = self._attempts if retries is None else retries + 1
        has_no_dead = self.dlq_threshold == 0 or (retries is None and (self.dlq_threshold or 0) > attempts)
        return {
            "max_attempts": attempts,
            "on_exhausted": "fail" if has_no_dead else "dead",
            "ttl_ms": ttl_ms if config.message_ttl_seconds is None else config.message_ttl_seconds * 1000,
            "max_depth": config.max_depth or 0,
            "throughput_limit": config.throughput_limit or 0,
        }

    def config(self, settings: Settings) -> TopicConfig:
        """The topic config that a queue's settings amount to, however they were set."""
        default = self.settings(TopicConfig())
        attempts, ttl_ms = settings.max_attempts, settings.ttl_ms
        return TopicConfig(
            max_retries=None if not attempts or attempts == default["max_attempts"] else attempts - 1,
            message_ttl_seconds=None if ttl_ms is None or ttl_ms == default["ttl_ms"] else ttl_ms // 1000,
            max_depth=settings.max_depth or None,
            throughput_limit=settings.throughput_limit or None,
        )

    @property
    def _attempts(self) -> int:
        return min(self.max_retries + 1, self.dlq_threshold or self.max_retries + 1)


class TopicConfig(Struct, frozen=True):
    """A topic's own config; None means the default of the options."""

    max_retries: Retries | None = None
    message_ttl_seconds: Seconds | None = None
    max_depth: Count | None = None
    throughput_limit: Count | None = None

    @property
    def is_empty(self) -> bool:
        return self == TopicConfig()


def _to_ms(given: Duration, what: str, least: int = 0) -> int:
    seconds = read_seconds(given) if isinstance(given, str) else given
    if seconds is None or not least <= seconds * 1000 <= LONGEST_MS:
        raise ValueError(f"{what} is a time such as 30s or 24h, at most 366 days, not {given!r}")
    return to_ms(seconds, what)
