"""A client that speaks SQL, and ways to look at its queue and to let time pass there."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec
import psycopg

NOBODY = UUID(int=0)
"""What dequeue gives when there is nothing."""

_TIMES = {
    "rowq_leased": ("lease_until", "expires_at"),
    "rowq_ready": ("expires_at",),
    "rowq_scheduled": ("due", "expires_at"),
    "rowq_expiring": ("ends_at",),
}


class Sql:
    """`sql("SELECT …", values)` gives the rows; each statement is a transaction of its own."""

    def __init__(self, url: str, schema: str = "test01") -> None:
        self.url = url
        self.schema = f'"{schema}"'
        self.connection = psycopg.connect(url, autocommit=True)
        self.connection.execute("SET TIME ZONE 'UTC'")

    def __call__(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        cursor = self.connection.execute(statement, values or None)
        return cursor.fetchall() if cursor.description else []

    def enqueue(self, payload: Any, **arguments: Any) -> None:
        given = "".join(f", {name} => %s" for name in arguments)
        self(f"CALL {self.schema}.enqueue(%s{given})", msgspec.json.encode(payload).decode(), *arguments.values())

    def dequeue(self, client: str = "client01", lease: int | None = None) -> tuple[UUID, Any]:
        """(id, payload); the id is NOBODY when there is nothing."""
        row = self(f"SELECT msg_id, msg_json FROM {self.schema}.dequeue(%s, %s)", client, lease)[0]
        return row[0], row[1]

    def ack(self, id: UUID, client: str = "client01", reason: str = "ack") -> None:
        self(f"CALL {self.schema}.message_ack(%s, %s, %s)", id, client, reason)

    def nak(self, id: UUID, client: str = "client01", reason: str = "nak") -> None:
        self(f"CALL {self.schema}.message_nak(%s, %s, %s)", id, client, reason)

    def rej(self, id: UUID, client: str = "client01", reason: str = "rej") -> None:
        self(f"CALL {self.schema}.message_rej(%s, %s, %s)", id, client, reason)

    def set(self, name: str, value: object) -> None:
        self(f"UPDATE {self.schema}.queue_configuration SET setting_value = %s WHERE setting_name = %s", str(value), name)

    def audit(self) -> list[tuple[Any, ...]]:
        """(state, by, why), in order."""
        return self(f"SELECT message_state_id, audit_by, reason_why FROM {self.schema}.message_audit ORDER BY audit_id")

    def let_pass(self, seconds: float) -> None:
        """So long ago is now what was just done: all that is to come is nearer by that."""
        for table, times in _TIMES.items():
            for time in times:
                self(f"UPDATE rowq.{table} SET {time} = {time} - %s WHERE {time} < 253000000000000", int(seconds * 1000))

    def now(self) -> int:
        """Milliseconds, as the procedures count them."""
        return int(self(f"SELECT {self.schema}.rowq_now()")[0][0])

    def stop_clock(self) -> int:
        """From now on it is this millisecond, for all that the procedures do: a busy machine does not move it. Gives it."""
        now = self.now()
        self(f"CREATE OR REPLACE FUNCTION {self.schema}.rowq_now() RETURNS BIGINT LANGUAGE sql VOLATILE AS 'SELECT {now}::BIGINT'")
        return now

    def close(self) -> None:
        self.connection.close()
