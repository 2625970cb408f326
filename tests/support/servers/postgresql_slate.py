"""A PostgreSQL database that can be put back, in one round trip, to how it was when its tables had just been made."""

from __future__ import annotations

from textwrap import indent

import psycopg
from psycopg import errors

_BIG = 256 * 1024
"""Bytes of a table from which on it is worth a TRUNCATE, which makes new files; DELETE is quicker, and leaves dead rows behind."""

_WIPE = """
CREATE FUNCTION rowq_seed.wipe() RETURNS void LANGUAGE plpgsql AS $wipe$
DECLARE
    stranger text;
BEGIN
    -- A connection that a test forgot may hold a lock, or go on writing.
    PERFORM pg_terminate_backend(pid)
    FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend';
    FOR stranger IN
        SELECT format('SCHEMA %I', nspname) FROM pg_namespace
        WHERE nspname NOT IN ('rowq', 'rowq_seed', 'public', 'information_schema') AND nspname NOT LIKE 'pg\\_%'
        UNION ALL
        SELECT format('TABLE public.%I', relname) FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')
    LOOP
        EXECUTE 'DROP ' || stranger || ' CASCADE';
    END LOOP;
{statements}
END
$wipe$
"""

_EMPTY = """
IF pg_relation_size('{table}') > {big} THEN
    TRUNCATE {table};
ELSIF pg_relation_size('{table}') > 0 THEN
    DELETE FROM {table};
END IF;
"""

_DAMAGE = (errors.UndefinedTable, errors.UndefinedColumn, errors.InvalidSchemaName, errors.UndefinedFunction)
"""What a test may have done to its tables. Any other error is one of ours, and is told."""

_TABLES = "SELECT quote_ident(table_name) FROM information_schema.tables WHERE table_schema = 'rowq' AND table_type = 'BASE TABLE'"

_SEQUENCES = """
SELECT format('PERFORM setval(%L, %s, %L);', format('rowq.%I', sequencename), COALESCE(last_value, start_value), last_value IS NOT NULL)
FROM pg_sequences WHERE schemaname = 'rowq'
"""


class PostgresqlSlate:
    def __init__(self, name: str, url: str) -> None:
        self.url = url
        self.databases = (name,)
        self._connection = self._connected()
        self._connection.execute("CREATE SCHEMA rowq_seed")
        self._connection.execute(_WIPE.format(statements=indent("\n".join(self._emptying_statements()), "    ")))

    def wipe(self) -> bool:
        """Whether it is as new again. A table that a test has dropped cannot be brought back."""
        try:
            self._wipe()
        except _DAMAGE:
            return False
        except psycopg.OperationalError:
            if not self._connection.closed:
                raise
            return False  # the server was started anew meanwhile
        return True

    def close(self) -> None:
        self._connection.close()

    def _wipe(self) -> None:
        self._connection.execute("SELECT rowq_seed.wipe()")

    def _connected(self) -> psycopg.Connection:
        return psycopg.connect(self.url, autocommit=True, prepare_threshold=0)

    def _emptying_statements(self) -> list[str]:
        """The rows that the tables were made with are copied aside."""
        statements = []
        for (table,) in self._connection.execute(_TABLES).fetchall():
            statements.append(_EMPTY.format(table=f"rowq.{table}", big=_BIG))
            if self._connection.execute(f"SELECT 1 FROM rowq.{table} LIMIT 1").fetchone():
                self._connection.execute(f"CREATE TABLE rowq_seed.{table} AS TABLE rowq.{table}")
                statements.append(f"INSERT INTO rowq.{table} OVERRIDING SYSTEM VALUE SELECT * FROM rowq_seed.{table};")
        return statements + [statement for (statement,) in self._connection.execute(_SEQUENCES).fetchall()]
