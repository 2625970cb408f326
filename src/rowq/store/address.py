"""Turns a database URL into a dialect and checks its parameters. A driver is imported only when its database is opened."""

from __future__ import annotations

from typing import Any
from urllib.parse import SplitResult, unquote

from rowq.errors import InvalidArgument
from rowq.model.text import check_text
from rowq.store.dialect import Dialect

POSTGRESQL_SCHEMES = ("postgresql", "postgres")
MARIADB_SCHEMES = ("mariadb", "mysql")
NO_URL = "this is not a database URL: write / # ? @ : in a user's name or password as %2F %23 %3F %40 %3A"
_DURABILITIES = ("send", "full", "normal")
_LIBPQ = (
    *("host", "hostaddr", "port", "user", "password", "passfile", "dbname", "service", "application_name", "connect_timeout"),
    *("sslmode", "sslrootcert", "sslcert", "sslkey", "sslcrl", "sslnegotiation", "channel_binding", "require_auth", "gssencmode"),
    *("target_session_attrs", "load_balance_hosts", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout"),
)
"""The libpq parameters that a URL may set, in addition to rowq's own options."""


def open_sqlite(parts: SplitResult, options: dict[str, str], timeout: float, *, must_exist: bool) -> Dialect:
    from rowq.store.sqlite.dialect import Sqlite

    durability = _durability(options, "send")
    _check_rest(options, "sqlite URLs take durability and timeout")
    return Sqlite(check_text(unquote(parts.path[1:]), "the path"), durability=durability, timeout=timeout, must_exist=must_exist)


def open_postgresql(parts: SplitResult, options: dict[str, str], timeout: float) -> Dialect:
    try:
        from rowq.store.postgresql.dialect import Postgresql
    except ImportError as error:
        raise InvalidArgument(f"PostgreSQL needs its driver: pip install 'rowq[postgresql]' [{error}]") from None
    place = _place(parts, "dbname")
    schema, durability = options.pop("schema", "rowq"), _durability(options, "full")
    parameters: dict[str, Any] = {
        "application_name": "rowq",
        "connect_timeout": min(10, max(2, int(timeout))),
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": int(timeout * 1000),
        **place,
        **{name: options.pop(name) for name in _LIBPQ if name in options},
    }
    _check_rest(options, "postgresql URLs take schema, durability, timeout, and libpq parameters (sslmode, …)")
    return Postgresql(parameters, _where(parts, parameters, "dbname"), schema=schema, durability=durability, timeout=timeout)


def open_mariadb(parts: SplitResult, options: dict[str, str], timeout: float) -> Dialect:
    try:
        from rowq.store.mariadb.dialect import Mariadb
    except ImportError as error:
        raise InvalidArgument(f"MariaDB and MySQL need their driver: pip install 'rowq[mariadb]' [{error}]") from None
    parameters = {**_place(parts, "database"), **{name: options.pop(name) for name in Mariadb.parameters if name in options}}
    _check_rest(options, f"mariadb URLs take timeout, {', '.join(Mariadb.parameters)}")
    return Mariadb(parameters, _where(parts, parameters, "database"), timeout=timeout)


def _place(parts: SplitResult, database: str) -> dict[str, Any]:
    """Host, port, user, password and database, as far as the URL names them."""
    if "@" in parts.path + parts.fragment + parts.query.partition("=")[0]:
        raise InvalidArgument(NO_URL)  # an unescaped password: the message must not show any of it
    given = {
        "host": parts.hostname,
        "port": parts.port,
        "user": None if parts.username is None else unquote(parts.username),
        "password": None if parts.password is None else unquote(parts.password),
        database: unquote(parts.path.removeprefix("/")) or None,
    }
    return {name: value for name, value in given.items() if value is not None}


def _where(parts: SplitResult, parameters: dict[str, Any], database: str) -> str:
    """The database's name in messages, without the password."""
    host = parameters.get("host") or parameters.get("unix_socket") or "localhost"
    port = f":{parameters['port']}" if "port" in parameters else ""
    return f"{parts.scheme}://{host}{port}/{parameters.get(database, '')}"


def _durability(options: dict[str, str], usual: str) -> Any:
    value = options.pop("durability", usual)
    if value not in _DURABILITIES:
        raise InvalidArgument(f"durability must be one of {', '.join(_DURABILITIES)}, not {value!r}")
    return value


def _check_rest(options: dict[str, str], known: str) -> None:
    if options:
        raise InvalidArgument(f"unknown URL parameter {next(iter(options))!r}: {known}")
