"""Django's connection, inside `transaction.atomic()`."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import django
from django.conf import settings
from django.db import connection, connections, transaction

from tests.support.harness import Harness
from tests.support.holders.holder import Holder

BACKENDS = {"sqlite": "sqlite3", "postgresql": "postgresql", "mariadb": "mysql"}


def settings_for(url: str) -> dict[str, Any]:
    """A URL of rowq in the words of Django's DATABASES."""
    parts, options = urlsplit(url), dict(parse_qsl(urlsplit(url).query))
    known: dict[str, Any] = {"ENGINE": f"django.db.backends.{BACKENDS[parts.scheme]}"}
    if parts.scheme == "sqlite":
        return {**known, "NAME": parts.path[1:]}
    known |= {"NAME": parts.path[1:], "USER": unquote(parts.username or ""), "PASSWORD": unquote(parts.password or "")}
    known |= {"HOST": options.pop("host", parts.hostname), "PORT": parts.port}
    return {**known, "OPTIONS": options | ({"charset": "utf8mb4"} if parts.scheme == "mariadb" else {})}


class DjangoHolder(Holder):
    def __init__(self, harness: Harness, *, commits_itself: bool = False) -> None:
        super().__init__(harness)
        if not settings.configured:
            settings.configure()
            django.setup()
        connections.settings = connections.configure_settings({"default": settings_for(harness.url)})
        self.held = connection
        self._block: Any = None
        self._commits_itself = commits_itself

    def run(self, statement: str) -> None:
        if self._block is None and not self._commits_itself:
            self._block = transaction.atomic()
            self._block.__enter__()
        with connection.cursor() as cursor:
            cursor.execute(statement)

    def nested(self) -> Any:
        return transaction.atomic()

    def commit(self) -> None:
        self._end()

    def rollback(self) -> None:
        if self._block is not None:
            transaction.set_rollback(True)
        self._end()

    def close(self) -> None:
        self.rollback()
        connection.close()
        del connections["default"]

    def _end(self) -> None:
        block, self._block = self._block, None
        if block is not None:
            block.__exit__(None, None, None)
