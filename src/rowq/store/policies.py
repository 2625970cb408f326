"""The policies of queues, read from the database and remembered until somebody changes them."""

from __future__ import annotations

import time
from typing import Any, Protocol

import msgspec

from rowq.errors import InvalidArgument, PayloadRejected
from rowq.model.queue import Policy, Settings, resolve
from rowq.store.dialect import Session


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
    def __init__(self, defaults: Settings, max_age_ms: int) -> None:
        self.defaults = defaults
        self._max_age_ms = max_age_ms
        self._known: dict[str, Known] = {}
        self._used: set[str] = set()
        self._version = -1
        self._checked_at = -1.0

    def refresh(self, session: Session, now: int) -> None:
        """Forgets everything if the settings have changed since. Goes by the running time, not by the clock, which may jump."""
        running = time.monotonic()
        if running - self._checked_at < self._max_age_ms / 1000:
            return
        self._checked_at = running
        version = session.rows("read_settings_version")[0][0]
        if version != self._version:
            self._known.clear()
            self._version = version
            for queue in tuple(self._used):  # somebody may have deleted a queue just before we sent to it: it exists by that use
                self.create(session, queue, now)
        self._used.clear()

    def known(self, session: Session, queue: str) -> Known:
        found = self._known.get(queue)
        if found is None:
            row = session.row("read_settings", queues=[queue])
            settings = read_settings(row[1]) if row else Settings()
            found = self._known[queue] = Known(settings, resolve(settings, self.defaults), row is not None)
        return found

    def of(self, session: Session, queue: str) -> Policy:
        return self.known(session, queue).policy

    def peek(self, queue: str) -> Policy | None:
        """What is remembered, without asking the database; it may be out of date."""
        found = self._known.get(queue)
        return None if found is None else found.policy

    def create(self, session: Session, queue: str, now: int) -> None:
        """A queue exists by use: its first send gives it a row."""
        known = self.known(session, queue)
        self._used.add(queue)
        if not known.is_stored:
            session.run("insert_queue", name=queue, settings=b"{}", created_at=now)
            known.is_stored = True

    def write(self, session: Session, queue: str, settings: Settings, now: int) -> None:
        check_schema(settings.schema)
        session.run("write_settings", name=queue, settings=msgspec.json.encode(settings), created_at=now)
        self.changed(session)

    def changed(self, session: Session) -> None:
        session.rows("raise_settings_version")
        self.forget()

    def distrust(self) -> None:
        self._checked_at = -1.0

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
    import jsonschema_rs  # only queues with a schema pay for it

    def refuse(uri: str) -> Any:
        raise ValueError(f"schemas are not fetched from elsewhere: put {uri} into $defs")

    try:
        validator: _Validator = jsonschema_rs.validator_for(schema, retriever=refuse)
    except Exception as error:  # its errors share no base class
        raise InvalidArgument(f"this is no JSON schema: {error}") from None
    return validator
