"""The policies of queues, read from the database and remembered until somebody changes them."""

from __future__ import annotations

import time
from typing import Any, Protocol

import msgspec

from rowq.errors import InvalidArgument, PayloadRejected
from rowq.model.queue import Policy, Settings, resolve
from rowq.store.dialect import Session
from rowq.store.notify.settings_cache import MISSING, SettingsCache

MOST_KNOWN = 1_000
"""Queues that a lane remembers: whoever asks for ever new names must not fill the memory."""


class _Validator(Protocol):
    def iter_errors(self, instance: Any) -> Any: ...


class Known(msgspec.Struct):
    """What is remembered of a queue. `is_stored` says that it has a row of its own."""

    settings: Settings
    policy: Policy
    is_stored: bool
    validator: Any = None
    depth_bound: int | None = None
    """At most this many messages are in it, unless somebody else has written since `counted_at` (see Dialect.news)."""
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
        """Forgets everything if the settings have changed since. Goes by the running time, not by the clock, which may jump.

        `distrusted`: how often somebody has said that they did."""
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
        """Somebody has deleted the queue just before we sent to it: its messages are there, and its row is not."""
        return not self.known(session, queue).is_stored and any(session.rows("count_states", queue=queue)[0][:-1])

    def is_fresh(self, distrusted: int) -> bool:
        """Whether `refresh` would have nothing to do."""
        return time.monotonic() - self._checked_at < self._max_age_ms / 1000 and distrusted == self._distrusted

    def remembered(self, queue: str) -> Policy | None:
        found = self._known.get(queue)
        return None if found is None else found.policy

    def known(self, session: Session, queue: str) -> Known:
        found = self._known.get(queue)
        if found is None:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()  # they are read again by whoever needs them
            data = self._read(session, queue)
            settings = Settings() if data is None else read_settings(data)
            found = self._known[queue] = Known(settings, resolve(settings, self.defaults), data is not None)
        return found

    def _read(self, session: Session, queue: str) -> bytes | None:
        """What is stored; none is known of a queue without a row of its own, which somebody may just have made."""
        cached = session.slowly(lambda: self._cache.get(self._version, queue)) if self._cache.is_afar else MISSING
        if cached is not MISSING:
            return cached
        row = session.row("read_settings", queues=[queue])
        data = None if row is None else bytes(row[1])
        self._cache.put(self._version, queue, data)
        return data

    def of(self, session: Session, queue: str) -> Policy:
        return self.known(session, queue).policy

    def keeping_nothing(self) -> tuple[list[str], list[str]]:
        """The queues that are remembered and keep nothing of an acked message, and those of them that have an audit."""
        queues = [queue for queue, known in self._known.items() if known.policy.keep == "none"]
        return queues, [queue for queue in queues if self._known[queue].policy.audit]

    def create(self, session: Session, queue: str, now: int) -> None:
        """A queue exists by use: its first send gives it a row."""
        known = self.known(session, queue)
        self._used.add(queue)
        if not known.is_stored:
            session.write("insert_queue", name=queue, settings=b"{}", created_at=now)
            known.is_stored = True

    def write(self, session: Session, queue: str, settings: Settings, now: int) -> None:
        check_schema(settings.schema)
        session.write("write_settings", name=queue, settings=msgspec.json.encode(settings), created_at=now)
        self.forget()

    def changed(self, session: Session) -> None:
        """Tells everybody to read them again."""
        session.write("raise_settings_version")
        self.forget()

    def forget(self) -> None:
        """What is remembered may have been rolled back."""
        self._known.clear()
        self._version = -1
        self._checked_at = -1.0


def read_settings(data: bytes) -> Settings:
    """Settings as they were stored; what only a newer release knows is passed over."""
    try:
        return msgspec.json.decode(data, type=Settings)
    except msgspec.ValidationError:
        fields = {name: value for name, value in msgspec.json.decode(data).items() if name in Settings.__struct_fields__}
        return msgspec.convert(fields, Settings)


def check_schema(schema: dict[str, Any] | None) -> None:
    if schema is not None:
        _compile(schema)


def check_payload(known: Known, payload: Any) -> None:
    """Raises PayloadRejected when the queue's schema does not allow the payload."""
    if known.validator is None:
        known.validator = _compile(known.policy.schema or {})
    error = next(iter(known.validator.iter_errors(payload)), None)
    if error is not None:
        where = "/".join(str(part) for part in error.instance_path)
        raise PayloadRejected(f"the payload does not match the queue's schema{f' at {where}' if where else ''}: {error.message}")


def _compile(schema: dict[str, Any]) -> _Validator:
    try:
        import jsonschema_rs  # only queues with a schema pay for it
    except ImportError:
        raise InvalidArgument(
            "this queue has a JSON schema, and the package that checks it is not installed: pip install 'rowq[schema]'"
        ) from None

    def refuse(uri: str) -> Any:
        raise ValueError(f"schemas are not fetched from elsewhere: put {uri} into $defs")

    try:
        validator: _Validator = jsonschema_rs.validator_for(schema, retriever=refuse)
    except Exception as error:  # its errors share no base class
        raise InvalidArgument(f"this is no JSON schema: {error}") from None
    return validator
