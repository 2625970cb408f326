"""The policies of queues, read from the database and cached until they change."""

from __future__ import annotations

import time
from typing import Any, Protocol

import msgspec

from rowq.errors import InvalidArgument, PayloadRejected
from rowq.model.queue import Policy, Settings, resolve
from rowq.store.dialect import Session
from rowq.store.notify.settings_cache import MISSING, SettingsCache

MOST_KNOWN = 1_000
"""Queues that an executor caches: callers that keep using new names must not fill the memory."""


class _Validator(Protocol):
    def iter_errors(self, instance: Any) -> Any: ...


class Known(msgspec.Struct):
    """What is cached of a queue. `is_stored`: it has a row of its own."""

    settings: Settings
    policy: Policy
    is_stored: bool
    validator: Any = None
    depth_bound: int | None = None
    """An upper bound on the queue's depth, valid while no other connection has written since `counted_at` (see Dialect.news)."""
    counted_at: int = -1


class Policies:
    def __init__(self, defaults: Settings, max_age_ms: int, cache: SettingsCache) -> None:
        self.defaults = defaults
        self._cache = cache
        self._max_age_ms = max_age_ms
        self._known: dict[str, Known] = {}
        self._used: set[str] = set()
        self._version = -1
        self._checked_at = -1.0
        self._distrusted = 0

    def refresh(self, session: Session, now: int, distrusted: int) -> None:
        """Forgets everything if the settings have changed. Uses the monotonic time, because the clock may jump.

        `distrusted`: how often a change was reported so far."""
        if self.is_fresh(distrusted):
            return
        self._checked_at, self._distrusted = time.monotonic(), distrusted
        version = session.rows("read_settings_version")[0][0]
        if version != self._version:
            self._known.clear()
            self._version = version
            for queue in tuple(self._used):
                if self._is_orphan(session, queue):
                    self.create(session, queue, now)
        self._used.clear()

    def _is_orphan(self, session: Session, queue: str) -> bool:
        """The queue was deleted just before this process sent to it: its messages exist, but its row does not."""
        return not self.known(session, queue).is_stored and any(session.rows("count_states", queue=queue)[0][:-1])

    def is_fresh(self, distrusted: int) -> bool:
        """Whether `refresh` would have nothing to do."""
        return time.monotonic() - self._checked_at < self._max_age_ms / 1000 and distrusted == self._distrusted

    def remembered(self, queue: str) -> Policy | None:
        found = self._known.get(queue)
        return None if found is None else found.policy

    def open_to(self, queue: str, size: int) -> Policy | None:
        """The policy of a queue that admits plain messages of this size unseen; None if it must be asked first."""
        found = self._known.get(queue)
        if found is None or not found.is_stored:
            return None
        policy = found.policy
        if policy.schema is not None or policy.max_depth or policy.ttl_ms or size > policy.max_payload_bytes:
            return None
        self._used.add(queue)
        return policy

    def known(self, session: Session, queue: str) -> Known:
        found = self._known.get(queue)
        if found is None:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()  # they are read again when needed
            data = self._read(session, queue)
            settings = Settings() if data is None else read_settings(data)
            found = self._known[queue] = Known(settings, resolve(settings, self.defaults), data is not None)
        return found

    def _read(self, session: Session, queue: str) -> bytes | None:
        """The stored settings; None for a queue without a row."""
        cached = session.slowly(lambda: self._cache.get(self._version, queue)) if self._cache.is_afar else MISSING
        if cached is not MISSING:
            return cached
        row = session.row("read_settings", queues=[queue])
        data = None if row is None else bytes(row[1])
        self._cache.put(self._version, queue, data)
        return data

    def keeping_nothing(self) -> tuple[list[str], list[str]]:
        """The cached queues that keep nothing of an acked message, and those of them that have an audit."""
        queues = [queue for queue, known in self._known.items() if known.policy.keep == "none"]
        return queues, [queue for queue in queues if self._known[queue].policy.audit]

    def create(self, session: Session, queue: str, now: int) -> None:
        """A queue exists by use: its first send gives it a row."""
        known = self._known.get(queue) or self.known(session, queue)
        self._used.add(queue)
        if not known.is_stored:
            session.write("insert_queue", name=queue, settings=b"{}", created_at=now)
            known.is_stored = True

    def write(self, session: Session, queue: str, settings: Settings, now: int) -> None:
        check_schema(settings.schema)
        session.write("write_settings", name=queue, settings=msgspec.json.encode(settings), created_at=now)
        self.forget()

    def changed(self, session: Session) -> None:
        """Makes every process read the settings again."""
        session.write("raise_settings_version")
        self.forget()

    def forget(self) -> None:
        """Clears the cache: what it holds may have been rolled back."""
        self._known.clear()
        self._version = -1
        self._checked_at = -1.0


def read_settings(data: bytes) -> Settings:
    """Decodes stored settings; fields of newer releases are ignored."""
    try:
        return msgspec.json.decode(data, type=Settings)
    except msgspec.ValidationError:
        fields = {name: value for name, value in msgspec.json.decode(data).items() if name in Settings.__struct_fields__}
        return msgspec.convert(fields, Settings)


def check_schema(schema: dict[str, Any] | None) -> None:
    if schema is not None:
        _compile(schema)


def check_payload(known: Known, payload: Any) -> None:
    """Raises PayloadRejected if the payload does not match the queue's schema."""
    if known.validator is None:
        known.validator = _compile(known.policy.schema or {})
    error = next(iter(known.validator.iter_errors(payload)), None)
    if error is not None:
        where = "/".join(str(part) for part in error.instance_path)
        raise PayloadRejected(f"the payload does not match the queue's schema{f' at {where}' if where else ''}: {error.message}")


def _compile(schema: dict[str, Any]) -> _Validator:
    try:
        import jsonschema_rs  # imported only for queues with a schema
    except ImportError:
        raise InvalidArgument(
            "this queue has a JSON schema, and the package that checks it is not installed: pip install 'rowq[schema]'"
        ) from None

    def refuse(uri: str) -> Any:
        raise ValueError(f"schemas are not fetched from elsewhere: put {uri} into $defs")

    try:
        validator: _Validator = jsonschema_rs.validator_for(schema, retriever=refuse)
    except Exception as error:  # its errors share no base class
        raise InvalidArgument(f"this is not a JSON schema: {error}") from None
    return validator
