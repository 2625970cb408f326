"""SQLAlchemy's Connection and Session, on every driver."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Engine, NullPool, create_engine, text
from sqlalchemy.orm import Session

from tests.support.harness import Harness
from tests.support.holders.holder import Holder


def engine_on(harness: Harness, dialect: str, connect: Any, *, commits_itself: bool = False) -> Engine:
    engine = create_engine(f"{dialect}://", creator=lambda: connect(harness), poolclass=NullPool)
    return engine.execution_options(isolation_level="AUTOCOMMIT") if commits_itself else engine


class _SqlalchemyHolder(Holder):
    held: Connection | Session

    def run(self, statement: str) -> None:
        self.held.execute(text(statement))

    def nested(self) -> Any:
        return self.held.begin_nested()

    def commit(self) -> None:
        self.held.commit()

    def rollback(self) -> None:
        self.held.rollback()

    def close(self) -> None:
        self.held.close()


class ConnectionHolder(_SqlalchemyHolder):
    def __init__(self, harness: Harness, dialect: str, connect: Any, *, commits_itself: bool = False) -> None:
        super().__init__(harness)
        self.held = engine_on(harness, dialect, connect, commits_itself=commits_itself).connect()


class SessionHolder(_SqlalchemyHolder):
    def __init__(self, harness: Harness, dialect: str, connect: Any, *, commits_itself: bool = False) -> None:
        super().__init__(harness)
        self.held = Session(engine_on(harness, dialect, connect, commits_itself=commits_itself))
