"""A MariaDB database that can be put back to how it was when its tables had just been made."""

from __future__ import annotations

from typing import Any

import pymysql
from pymysql.constants import CLIENT, CR, ER

from tests.support.servers.mariadb import connected, cut_off

_DAMAGE = (ER.NO_SUCH_TABLE, ER.BAD_DB_ERROR, ER.BAD_FIELD_ERROR, ER.WRONG_VALUE_COUNT_ON_ROW, CR.CR_SERVER_GONE_ERROR, CR.CR_SERVER_LOST)
"""What a test may have done to its tables, or to the server. Any other error is one of ours, and is told."""

_TABLES = "SELECT table_name, auto_increment FROM information_schema.tables WHERE table_schema = %s"
_COUNTERS_AS_THEY_ARE = "/*!80000 SET SESSION information_schema_stats_expiry = 0 */"
"""MySQL shows what they were a day ago otherwise; MariaDB always looks, and takes this for a comment."""


class MariadbSlate:
    """Only statements that MySQL knows as well: it may be what a user gives us."""

    def __init__(self, name: str, url: str) -> None:
        self.url = url
        self.databases = (name, f"{name}_seed")
        self._connection = self._connected()
        self._tables: dict[str, int | None] = dict(self._ask(_TABLES, name))
        """Each with the first number that it gives to a row, if it numbers them."""
        self._emptying = "; ".join(("START TRANSACTION", *self._emptying_statements(), "COMMIT"))

    def wipe(self) -> bool:
        """Whether it is as new again. A table that a test has dropped cannot be brought back."""
        try:
            self._wipe()
        except pymysql.MySQLError as error:
            if error.args[0] not in _DAMAGE:
                raise
            return False
        return True

    def close(self) -> None:
        self._connection.close()

    def _wipe(self) -> None:
        name, _ = self.databases
        with self._connection.cursor() as cursor:
            # One that a test forgot may hold a lock, or go on writing.
            cut_off(cursor, name)
            cursor.execute(self._emptying)
            while cursor.nextset():
                pass
            cursor.execute(_TABLES, (name,))
            for table, start in cursor.fetchall():
                if table not in self._tables:
                    cursor.execute(f"DROP TABLE `{name}`.`{table}`")
                elif start != self._tables[table]:
                    cursor.execute(f"ALTER TABLE `{name}`.`{table}` AUTO_INCREMENT = {self._tables[table]}")

    def _emptying_statements(self) -> list[str]:
        """Not TRUNCATE, which makes a new file for each table. The rows that the tables were made with are copied aside."""
        name, seed = self.databases
        self._ask(f"CREATE DATABASE `{seed}`")
        statements = []
        for table in self._tables:
            statements.append(f"DELETE FROM `{name}`.`{table}`")
            if self._ask(f"SELECT 1 FROM `{name}`.`{table}` LIMIT 1"):
                self._ask(f"CREATE TABLE `{seed}`.`{table}` AS SELECT * FROM `{name}`.`{table}`")
                statements.append(f"INSERT INTO `{name}`.`{table}` SELECT * FROM `{seed}`.`{table}`")
        return statements

    def _connected(self) -> pymysql.Connection[Any]:
        return connected(self.url, client_flag=CLIENT.MULTI_STATEMENTS, init_command=_COUNTERS_AS_THEY_ARE)

    def _ask(self, statement: str, *values: Any) -> list[Any]:
        with self._connection.cursor() as cursor:
            cursor.execute(statement, values or None)
            return list(cursor.fetchall())
