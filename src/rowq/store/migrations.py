"""Migrates a database to this release's tables. A new database gets the whole schema at once, an older one the steps in between."""

from __future__ import annotations

import re
from contextlib import suppress

from rowq.errors import SchemaMismatch
from rowq.store.dialect import Dialect, Session
from rowq.store.query import read_sql
from rowq.store.retry import TryAgain

VERSION = 8
"""Raised by each release that changes the tables, together with a step `sql/migrations/NNNN.<dialect>.sql`."""

_MOST_LOOKS = 20

_COMMENT = re.compile(r"--.*")
_STATEMENT = re.compile(r"(?:\$\$.*?\$\$|[^;])+", re.DOTALL)
"""Up to its semicolon; the text between two $$ is a function body."""


def migrate(dialect: Dialect, now: int) -> tuple[int, int]:
    """Returns (version before, version now); 0 means that there were no tables."""
    before = _look(dialect)
    if before < VERSION:
        with dialect.migrating() as session:
            before = _version(session)  # read again, now that no other process can migrate
            for file in _steps(before, dialect.name):
                session.install(_statements(read_sql(file)))
            if before < VERSION:
                session.run("insert_version", version=VERSION, applied_at=now)
    _refuse_newer(before)
    return before, VERSION


def check(dialect: Dialect) -> None:
    """Raises SchemaMismatch unless the tables are exactly of this release's version."""
    version = _look(dialect)
    _refuse_newer(version)
    if version < VERSION:
        state = f"of version {version}" if version else "not there"
        raise SchemaMismatch(f"the tables of rowq are {state}, this release needs version {VERSION}: run `rowq migrate`")


def _look(dialect: Dialect) -> int:
    """Tries again if another process creates the tables at this moment, which makes an older snapshot fail."""
    for _ in range(_MOST_LOOKS):
        with suppress(TryAgain), dialect.reading() as session:
            return _version(session)
    with dialect.reading() as session:
        return _version(session)


def _version(session: Session) -> int:
    if not session.rows("is_installed")[0][0]:
        return 0
    return session.rows("read_version")[0][0] or 0


def _refuse_newer(version: int) -> None:
    if version > VERSION:
        raise SchemaMismatch(
            f"the tables of rowq are of version {version}, this release knows only {VERSION}: upgrade rowq; nothing was changed"
        )


def _steps(before: int, dialect: str) -> list[str]:
    if before == 0:
        return [f"schema.{dialect}.sql"]
    return [f"migrations/{version:04}.{dialect}.sql" for version in range(before + 1, VERSION + 1)]


def _statements(script: str) -> list[str]:
    return [statement for piece in _STATEMENT.findall(_COMMENT.sub("", script)) if (statement := piece.strip())]
