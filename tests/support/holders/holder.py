"""What every one of them can do, as far as a test wants it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rowq import Broker
from tests.support.harness import Harness

ORDER = "INSERT INTO orders VALUES ('lamp')"
COUNT = "SELECT COUNT(*) FROM orders"


class Undo(Exception):
    """Raised inside a savepoint in order to roll it back."""


class Holder(ABC):
    """An application with a table of orders. Its first statement opens its transaction."""

    held: Any
    """What it gives to `within`."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        harness.connection().close()  # makes the table

    @property
    def broker(self) -> Broker:
        return self.harness.broker

    def within(self) -> Any:
        """The verbs; where they are coroutines, this one waits for them."""
        return self.broker.within(self.held)

    def order(self) -> None:
        self.run(ORDER)

    def orders(self) -> int:
        """Those that are committed, as others see them."""
        connection = self.harness.database.connection()
        try:
            cursor = connection.cursor()
            cursor.execute(COUNT)
            return int(cursor.fetchone()[0])
        finally:
            connection.close()

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Rolled back by any error; that of `Undo` ends here."""
        try:
            with self.nested():
                yield
        except Undo:
            pass

    @abstractmethod
    def run(self, statement: str) -> None: ...

    @abstractmethod
    def nested(self) -> Any:
        """A context that is a savepoint, in the words of that package."""

    @abstractmethod
    def commit(self) -> None: ...

    @abstractmethod
    def rollback(self) -> None: ...

    @abstractmethod
    def close(self) -> None: ...
