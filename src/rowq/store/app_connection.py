"""What an application holds of its transaction, unwrapped to the connection of a driver.

SQLAlchemy and Django wrap one. Neither is imported here: an object is known by the packages that its classes come from.
"""

from __future__ import annotations

import inspect
from typing import Any

from rowq.errors import InvalidArgument, StoreUnavailable


def unwrap(held: Any) -> Any:
    """Asked for each verb anew: a session of SQLAlchemy has another connection, or another savepoint, from one moment to the next."""
    packages = packages_of(held)
    if "sqlalchemy" in packages and not is_awaited(held):
        return _of_sqlalchemy(held)
    if "django" in packages and hasattr(held, "in_atomic_block"):
        return _of_django(held)
    return held


async def unwrap_async(held: Any) -> Any:
    """The same for what is awaited."""
    if "sqlalchemy" not in packages_of(held):
        return held
    connection = await held.connection() if hasattr(type(held), "get_bind") else held
    _check_open(connection)
    if not connection.in_transaction():
        await connection.begin()
    return (await connection.get_raw_connection()).driver_connection


def is_awaited(held: Any) -> bool:
    """Whether it belongs to an event loop, like the AsyncConnection of psycopg and the AsyncConnection and AsyncSession of SQLAlchemy."""
    return inspect.iscoroutinefunction(getattr(type(held), "commit", None))


def packages_of(held: Any) -> set[str]:
    """Those of its own class and of all that it inherits from: applications and other packages derive from SQLAlchemy's Session."""
    return {kind.__module__.partition(".")[0] for kind in type(held).__mro__}


def refusal(given: Any, accepted: str, where: str) -> InvalidArgument:
    """Of what no dialect of that database can join."""
    name = f"{type(given).__module__}.{type(given).__qualname__}".removeprefix("builtins.")
    return InvalidArgument(f"within() was given {name}, whose transaction it cannot join: for {where} give it {accepted}")


def _of_sqlalchemy(held: Any) -> Any:
    if hasattr(type(held), "get_bind"):  # a Session
        held = held.connection()
    if hasattr(type(held), "in_transaction"):
        _check_open(held)
        if not held.in_transaction():
            held.begin()  # as its own execute() does; without that, its commit() would leave out what was sent
        held = held.connection
    return getattr(held, "driver_connection", held)


def _of_django(held: Any) -> Any:
    if held.get_autocommit():
        raise InvalidArgument("Django has no open transaction on this connection: call within() inside `with transaction.atomic():`")
    return held.connection


def _check_open(connection: Any) -> None:
    if connection.closed:
        raise StoreUnavailable("this connection is closed")
