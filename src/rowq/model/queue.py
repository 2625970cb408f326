"""A queue: its name, its settings, and the policy that results from settings and defaults."""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import NoneType
from typing import Annotated, Any, Literal, NamedTuple, TypedDict, Union, get_args, get_type_hints

import msgspec

from rowq.errors import InvalidArgument, NameReserved
from rowq.model.duration import Duration
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
SettingKind = Literal["duration", "number", "switch", "choice", "backoff", "schema"]


class About(NamedTuple):
    """What forms, the command line, OpenAPI and the documents say about a setting."""

    group: str
    help: str


_DELIVERY, _LEASES, _EXPIRY = "Delivery and retries", "Lease expiry and receipts", "Expiry"
_LIMITS, _RETENTION, _DEAD = "Limits", "Retention", "Dead letters"


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """The effective settings of a queue, and the table of all settings: the engine's defaults, with 0 for no limit, and what each does.
    `Settings` and `SettingsOptions` repeat the names, for type checkers; every other form of them is derived, through `SETTINGS`."""

    lease_ms: Annotated[int, About(_DELIVERY, "How long a consumer holds a delivery.")] = 30_000
    max_attempts: Annotated[int, About(_DELIVERY, "Deliveries before the message's attempts are used up; 0 for no limit.")] = 5
    backoff: Annotated[
        Backoff,
        About(
            _DELIVERY,
            "The delay before each retry: a list, linear or exponential. A list of n without max_attempts means n + 1 deliveries.",
        ),
    ] = Delays((1_000, 5_000, 15_000, 30_000, 60_000))
    ttl_ms: Annotated[int, About(_EXPIRY, "After how long a waiting message expires; 0 for never.")] = 0
    ttl_from: Annotated[
        Literal["available", "enqueue"], About(_EXPIRY, "From when a TTL runs: when the message may be received, or when it was sent.")
    ] = "available"
    refresh_ttl: Annotated[bool, About(_EXPIRY, "Whether a message gets a fresh TTL when a send with its key replaces it.")] = False
    on_expire: Annotated[OnExpire, About(_EXPIRY, "What becomes of an expired message.")] = "dead"
    on_exhausted: Annotated[OnExhausted, About(_DELIVERY, "What becomes of a message without attempts left.")] = "dead"
    delivery: Annotated[DeliveryMode, About(_DELIVERY, "Whether a message that a consumer may have begun is delivered again.")] = (
        "at_least_once"
    )
    order: Annotated[
        Literal["sent", "ready"], About(_DELIVERY, "Where a returning message goes: to its old place, or behind what is ready now.")
    ] = "sent"
    count_lease_expiry: Annotated[bool, About(_LEASES, "Whether an expired lease counts as an attempt.")] = True
    lease_expiry_backoff: Annotated[
        Literal["none", "nack"], About(_LEASES, "After a lease expired: retry at once, or wait as after a nack.")
    ] = "none"
    require_receipt: Annotated[bool, About(_LEASES, "Whether settling requires a receipt even where an id would do.")] = False
    max_depth: Annotated[int, About(_LIMITS, "Messages that may be in the queue before a send is refused; 0 for no limit.")] = 0
    throughput_limit: Annotated[int, About(_LIMITS, "Messages delivered per second; 0 for no limit.")] = 0
    max_payload_bytes: Annotated[int, About(_LIMITS, "Maximum size of an encoded payload.")] = 256 * 1024
    schema: Annotated[dict[str, Any] | None, About(_LIMITS, "A JSON schema that payloads must match.")] = None
    keep: Annotated[Keep, About(_RETENTION, "What is kept of an acked message: nothing, its outcome, or its body too.")] = "none"
    retention_ms: Annotated[int, About(_RETENTION, "For how long finished messages are kept; 0 for ever.")] = 7 * 86_400_000
    audit: Annotated[bool, About(_RETENTION, "Whether events are recorded.")] = True
    audit_retention_ms: Annotated[int, About(_RETENTION, "For how long events are kept; 0 for ever.")] = 31 * 86_400_000
    dlq_ttl_ms: Annotated[int, About(_DEAD, "After how long a dead letter is deleted; 0 for never.")] = 0
    dlq_exhausted: Annotated[
        Literal["keep", "delete"], About(_DEAD, "What becomes of a dead letter that was received and has used up its attempts.")
    ] = "keep"
    paused: Annotated[bool, About(_DELIVERY, "Whether delivery is stopped. Sending continues.")] = False


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


class SettingsOptions(TypedDict, total=False):
    """The settings of a queue in Python: durations in seconds; None restores the default."""

    lease: Duration | None
    max_attempts: int | None
    backoff: Backoff | Sequence[Duration] | None
    ttl: Duration | None
    ttl_from: Literal["available", "enqueue"] | None
    refresh_ttl: bool | None
    on_expire: OnExpire | None
    on_exhausted: OnExhausted | None
    delivery: DeliveryMode | None
    order: Literal["sent", "ready"] | None
    count_lease_expiry: bool | None
    lease_expiry_backoff: Literal["none", "nack"] | None
    require_receipt: bool | None
    max_depth: int | None
    throughput_limit: int | None
    max_payload_bytes: int | None
    schema: dict[str, Any] | None
    keep: Keep | None
    retention: Duration | None
    audit: bool | None
    audit_retention: Duration | None
    dlq_ttl: Duration | None
    dlq_exhausted: Literal["keep", "delete"] | None
    paused: bool | None


class Setting(msgspec.Struct, frozen=True):
    """One row of the table of settings."""

    name: str
    """The name that users write: `lease`."""
    field: str
    """The field of `Settings`: `lease_ms`."""
    kind: SettingKind
    type: Any
    """The type of a stored value, with its limits."""
    group: str
    help: str
    choices: tuple[str, ...] = ()
    least_ms: int = 0

    @property
    def wire(self) -> str:
        """Its name in HTTP: there a backoff may also be a list of milliseconds."""
        return "backoff_ms" if self.kind == "backoff" else self.field


def _table() -> dict[str, Setting]:
    """Kinds, choices and limits come from the types of the fields."""
    stored, found = get_type_hints(Settings, include_extras=True), {}
    for field, annotated in get_type_hints(Policy, include_extras=True).items():
        kept: Any = Union[*(kind for kind in get_args(stored[field]) if kind is not NoneType)]
        (about,) = annotated.__metadata__
        choices = tuple(choice for choice in get_args(annotated.__origin__) if isinstance(choice, str))
        kind, name = _kind(field, annotated.__origin__, choices), field.removesuffix("_ms")
        least = kept.__metadata__[0].ge if kind == "duration" else 0
        found[name] = Setting(name, field, kind, kept, about.group, about.help, choices, least)
    return found


def _kind(field: str, hint: Any, choices: tuple[str, ...]) -> SettingKind:
    if choices:
        return "choice"
    if field == "backoff":
        return "backoff"
    if field == "schema":
        return "schema"
    if hint is bool:
        return "switch"
    return "duration" if field.endswith("_ms") else "number"


SETTINGS = _table()


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
