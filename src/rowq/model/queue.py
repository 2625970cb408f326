"""A queue: its name, its settings, and the policy that results from settings and defaults."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

import msgspec

from rowq.errors import InvalidArgument, NameReserved
from rowq.model.retry import Backoff, Delays, Millis, PositiveMillis, implied_attempts

DEAD_SUFFIXES = (".dlq", "-dlq")
_NAME = re.compile(r"(?!\.{1,2}(?:[.-]dlq)?$)[A-Za-z0-9._-]{1,64}(?:[.-]dlq)?")
"""The suffix is not counted: the longest name has dead letters too. Names that a browser resolves as relative paths are excluded."""

Whole = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
Bytes = Annotated[int, msgspec.Meta(ge=1, le=256 << 20)]

OnExpire = Literal["dead", "expired", "delete"]
OnExhausted = Literal["dead", "fail", "delete"]
DeliveryMode = Literal["at_least_once", "at_most_once"]
Keep = Literal["none", "outcome", "body"]
Origin = Literal["queue", "server", "default"]


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """The effective settings of a queue. The values here are the engine's own defaults; 0 means no limit."""

    lease_ms: int = 30_000
    max_attempts: int = 5
    backoff: Backoff = Delays((1_000, 5_000, 15_000, 30_000, 60_000))
    ttl_ms: int = 0
    ttl_from: Literal["available", "enqueue"] = "available"
    refresh_ttl: bool = False
    on_expire: OnExpire = "dead"
    on_exhausted: OnExhausted = "dead"
    delivery: DeliveryMode = "at_least_once"
    order: Literal["sent", "ready"] = "sent"
    count_lease_expiry: bool = True
    lease_expiry_backoff: Literal["none", "nack"] = "none"
    require_receipt: bool = False
    max_depth: int = 0
    throughput_limit: int = 0
    max_payload_bytes: int = 256 * 1024
    schema: dict[str, Any] | None = None
    keep: Keep = "none"
    retention_ms: int = 7 * 86_400_000
    audit: bool = True
    audit_retention_ms: int = 31 * 86_400_000
    dlq_ttl_ms: int = 0
    dlq_exhausted: Literal["keep", "delete"] = "keep"
    paused: bool = False


class Settings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The settings stored for a queue. None is unset: the server's default applies, then the engine's (`Policy`)."""

    lease_ms: PositiveMillis | None = None
    max_attempts: Whole | None = None
    backoff: Backoff | None = None
    ttl_ms: Millis | None = None
    ttl_from: Literal["available", "enqueue"] | None = None
    refresh_ttl: bool | None = None
    on_expire: OnExpire | None = None
    on_exhausted: OnExhausted | None = None
    delivery: DeliveryMode | None = None
    order: Literal["sent", "ready"] | None = None
    count_lease_expiry: bool | None = None
    lease_expiry_backoff: Literal["none", "nack"] | None = None
    require_receipt: bool | None = None
    max_depth: Whole | None = None
    throughput_limit: Whole | None = None
    max_payload_bytes: Bytes | None = None
    schema: dict[str, Any] | None = None
    keep: Keep | None = None
    retention_ms: Millis | None = None
    audit: bool | None = None
    audit_retention_ms: Millis | None = None
    dlq_ttl_ms: Millis | None = None
    dlq_exhausted: Literal["keep", "delete"] | None = None
    paused: bool | None = None


def resolve(*layers: Settings) -> Policy:
    """The policy of a queue; an earlier layer overrides a later one."""
    chosen: dict[str, Any] = {}
    for layer in reversed(layers):
        chosen |= {name: value for name, value in msgspec.structs.asdict(layer).items() if value is not None}
        if layer.backoff is not None and layer.max_attempts is None:
            chosen["max_attempts"] = implied_attempts(layer.backoff) or chosen.get("max_attempts", Policy().max_attempts)
    return Policy(**chosen)


def origins(own: Settings, server: Settings) -> dict[str, Origin]:
    """Where the value of each setting comes from. Attempts implied by a backoff come from where the backoff does."""
    return {name: "queue" if _says(own, name) else "server" if _says(server, name) else "default" for name in Settings.__struct_fields__}


def _says(layer: Settings, name: str) -> bool:
    is_implied = name == "max_attempts" and layer.backoff is not None and implied_attempts(layer.backoff) is not None
    return is_implied or getattr(layer, name) is not None


def change(settings: Settings, **changes: Any) -> Settings:
    """The settings with some replaced; None restores the default."""
    unknown = sorted(set(changes) - set(Settings.__struct_fields__))
    if unknown:
        raise InvalidArgument(f"unknown setting {unknown[0]!r}; settings are: {', '.join(Settings.__struct_fields__)}")
    merged = {**msgspec.structs.asdict(settings), **changes}
    try:
        changed = msgspec.convert({name: _plain(value) for name, value in merged.items() if value is not None}, Settings)
        msgspec.json.encode(changed)  # a schema may contain what JSON cannot encode
        return changed
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        raise InvalidArgument(f"this setting is not possible: {error}") from None


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value) if isinstance(value, msgspec.Struct) else value


def check_name(name: object) -> str:
    """A queue's name to read from; the reserved names of dead letters are allowed."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidArgument(f"{name!r} is not a queue name: use 1 to 64 of the characters A-Z a-z 0-9 . _ -, and not . or .. alone")
    return name


def check_own_name(name: object) -> str:
    """A queue's name to send to or to configure."""
    checked = check_name(name)
    if checked.endswith(DEAD_SUFFIXES):
        raise NameReserved(
            f"{checked!r} means the dead letters of {checked[:-4]!r}: receive, browse, redrive or purge them; for the rest name the queue"
        )
    return checked


def split_name(name: str) -> tuple[str, bool]:
    """(queue, True) if the name means the dead letters of a queue, else (name, False)."""
    checked = check_name(name)
    if checked.endswith(DEAD_SUFFIXES) and len(checked) > len(".dlq"):
        return checked[:-4], True
    return checked, False


def dead_topic(queue: str) -> str:
    """The name that means the dead letters of a queue."""
    return queue + DEAD_SUFFIXES[0]
