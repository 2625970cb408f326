"""Unwraps an application's connection or session to the driver's connection.

Neither SQLAlchemy nor Django is imported here: an object is recognized by the packages of its classes.
"""

from __future__ import annotations

import inspect
from typing import Any

from rowq.errors import InvalidArgument, StoreUnavailable


def unwrap(held: Any) -> Any:
    """Called for each verb: a SQLAlchemy session may have a different connection or savepoint each time."""
    packages = packages_of(held)
    if "sqlalchemy" in packages and not is_awaited(held):
        return _of_sqlalchemy(held)
    if "django" in packages and hasattr(held, "in_atomic_block"):
        return _of_django(held)
    return held


async def unwrap_async(held: Any) -> Any:
    """The same for an asynchronous connection or session."""
    if "sqlalchemy" not in packages_of(held):
        return held
    connection = await held.connection() if hasattr(type(held), "get_bind") else held
    _check_open(connection)
    if not connection.in_transaction():
        await connection.begin()
    return (await connection.get_raw_connection()).driver_connection


def is_awaited(held: Any) -> bool:
    """Whether it belongs to an event loop, like psycopg's AsyncConnection and SQLAlchemy's AsyncConnection and AsyncSession."""
    return inspect.iscoroutinefunction(getattr(type(held), "commit", None))


def packages_of(held: Any) -> set[str]:
    """The packages of its class and all base classes: applications and other packages derive from SQLAlchemy's Session."""
    return {kind.__module__.partition(".")[0] for kind in type(held).__mro__}


def refusal(given: Any, accepted: str, where: str) -> InvalidArgument:
    """The error for an object that the database's dialect cannot join."""
    name = f"{type(given).__module__}.{type(given).__qualname__}".removeprefix("builtins.")
    return InvalidArgument(f"within() was given {name}, whose transaction it cannot join: for {where} give it {accepted}")


def _of_sqlalchemy(held: Any) -> Any:
    if hasattr(type(held), "get_bind"):  # a Session
        held = held.connection()
    if hasattr(type(held), "in_transaction"):
        _check_open(held)
        if not held.in_transaction():
            held.begin()  # as its own execute() does; otherwise its commit() would not commit what was sent
        held = held.connection
    return getattr(held, "driver_connection", held)


def _of_django(held: Any) -> Any:
    if held.get_autocommit():
        raise InvalidArgument("Django has no open transaction on this connection: call within() inside `with transaction.atomic():`")
    return held.connection


def _check_open(connection: Any) -> None:
    if connection.closed:
        raise StoreUnavailable("this connection is closed")
