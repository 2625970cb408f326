"""connect(url): the one place where the parts are assembled."""

from __future__ import annotations

from functools import partial
from typing import Any, Never, TypedDict, Unpack, cast
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from rowq.async_broker import AsyncBroker
from rowq.broker import Broker
from rowq.client.address import SCHEMES, Address
from rowq.client.engine import RemoteEngine
from rowq.clock import Clock, SystemClock
from rowq.deprecation import under_new_names
from rowq.engine.engine import Engine
from rowq.errors import InvalidArgument
from rowq.model.duration import Duration, to_ms
from rowq.model.queue import Settings
from rowq.model.text import check_text, clean_text
from rowq.store import migrations
from rowq.store.dialect import Dialect
from rowq.store.notify.notifier import Notifier
from rowq.store.notify.redis import RedisNotifier
from rowq.store.notify.redis_connection import check_redis_url
from rowq.store.notify.settings_cache import RedisSettingsCache, SettingsCache
from rowq.store.retry import insist

DEFAULT_TIMEOUT = 30.0
RENAMED = {"upkeep": "maintenance"}
"""Options of the release before, accepted for one release."""
_POSTGRESQL_SCHEMES = ("postgresql", "postgres")
_MARIADB_SCHEMES = ("mariadb", "mysql")
_NO_URL = "this is not a database URL: write / # ? @ : in a user's name or password as %2F %23 %3F %40 %3A"
_DURABILITIES = ("send", "full", "normal")
_LIBPQ = (
    *("host", "hostaddr", "port", "user", "password", "passfile", "dbname", "service", "application_name", "connect_timeout"),
    *("sslmode", "sslrootcert", "sslcert", "sslkey", "sslcrl", "sslnegotiation", "channel_binding", "require_auth", "gssencmode"),
    *("target_session_attrs", "load_balance_hosts", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout"),
)
"""The libpq parameters that a URL may set, in addition to rowq's own options."""
_NO_TRANSACTION = "a server's queue is in another database than your connection: `within` needs a broker that has the database in process"


class ConnectOptions(TypedDict, total=False):
    """The options of a connection besides its URL."""

    clock: Clock | None
    """For tests: `rowq.ManualClock()`."""
    maintenance: bool
    """False leaves maintenance to other processes."""
    actor: str | None
    """The actor, recorded in the audit."""
    defaults: Settings | None
    """Settings for queues that have none of their own."""
    timeout: Duration | None
    """How long a call waits for a busy database; also a URL parameter."""
    migrate: bool
    """False raises SchemaMismatch instead of creating or changing tables."""
    redis: str | None
    """`redis://…`: processes notify each other through it of ready messages, and cache settings there. Without it the database notifies, as
    far as it can."""
    api_key: str | None
    """The secret of a key to a server; else ROWQ_API_KEY in the environment."""


class RemoteBroker(Broker):
    """The queue on a server. Created by `rowq.connect("http://…")`; may be used from any number of threads, and in forked processes.

    It is a Broker, so code that takes a Broker takes this one too, and every verb has one signature. A RemoteEngine has the interface of
    an Engine as far as a broker uses it; the contract suite, which also runs over HTTP, verifies that.
    """

    def __init__(self, address: Address, timeout: float) -> None:
        super().__init__(cast(Engine, RemoteEngine(address, timeout)))

    @property
    def within(self) -> Never:
        raise AttributeError(_NO_TRANSACTION)


class AsyncRemoteBroker(AsyncBroker):
    """The queue on a server, for coroutines. Created by `rowq.connect_async("http://…")`."""

    def __init__(self, address: Address, timeout: float) -> None:
        super().__init__(lambda: cast(Engine, RemoteEngine(address, timeout)))

    @property
    def within(self) -> Never:
        raise AttributeError(_NO_TRANSACTION)

    async def close(self) -> None:
        if self._opened is not None:
            await cast(RemoteEngine, self._opened).close_async()


def connect(url: str, **options: Unpack[ConnectOptions]) -> Broker:
    """Opens the queue in a database, or on a server.

    `sqlite:///jobs.db` is a file in the current folder, `sqlite:////var/lib/jobs.db` an absolute path; `http://localhost:8080` and
    `https://name:secret@example.com` are servers. URL parameters: `timeout` (seconds), and for databases `durability` (send, full or
    normal).
    """
    given = under_new_names(options, RENAMED)
    return RemoteBroker(*_server(url, **given)) if _is_remote(url) else Broker(open_engine(url, **_local(given)))


def connect_async(url: str, **options: Unpack[ConnectOptions]) -> AsyncBroker:
    """The same verbs as coroutines: `async with rowq.connect_async(url) as broker`."""
    given = under_new_names(options, RENAMED)
    if _is_remote(url):
        return AsyncRemoteBroker(*_server(url, **given))
    return AsyncBroker(lambda: open_engine(url, **_local(given)))


def migrate(url: str) -> tuple[int, int]:
    """Brings the tables to this release's version; returns (version before, version now)."""
    refuse_server(url, "a server migrates its database itself, when it starts")
    dialect = _dialect(url, None)
    try:
        return migrations.migrate(dialect, SystemClock().now())
    finally:
        dialect.close()


def open_engine(
    url: str,
    *,
    clock: Clock | None = None,
    maintenance: bool = True,
    actor: str | None = None,
    defaults: Settings | None = None,
    timeout: Duration | None = None,
    migrate: bool = True,
    redis: str | None = None,
) -> Engine:
    """The parts without a broker around them: for the server, which drives the verbs itself."""
    if redis is not None:
        check_redis_url(redis)
    if actor is not None and not isinstance(actor, str):
        raise InvalidArgument(f"actor must be text, not {type(actor).__name__}")
    if defaults is not None and not isinstance(defaults, Settings):
        raise InvalidArgument(f"defaults must be rowq.Settings(…), not {type(defaults).__name__}")
    dialect = _dialect(url, timeout, must_exist=not migrate)
    try:
        prepare = partial(migrations.migrate, dialect, (clock or SystemClock()).now()) if migrate else partial(migrations.check, dialect)
        insist(prepare, dialect.timeout)
        clock = clock or insist(dialect.clock, dialect.timeout)
        notifier, cache = insist(partial(_messengers, dialect, redis), dialect.timeout)
    except BaseException:
        dialect.close()
        raise
    return Engine(
        dialect,
        clock,
        defaults or Settings(),
        actor=None if actor is None else clean_text(actor),
        timeout=dialect.timeout,
        maintenance=maintenance,
        notifier=notifier,
        cache=cache,
    )


def open_dialect(url: str) -> Dialect:
    """A database with its tables, for callers that read the tables directly."""
    refuse_server(url, "a server does not give access to tables")
    dialect = _dialect(url, None, must_exist=True)
    try:
        migrations.check(dialect)
    except BaseException:
        dialect.close()
        raise
    return dialect


def install_peq(url: str, queue: str) -> None:
    """Creates or replaces PEQ's procedures and views for a queue, in a schema of its name; with the tables, as `connect` does."""
    migrate(url)
    dialect = open_dialect(url)
    try:
        dialect.install_peq(queue)
    finally:
        dialect.close()


def _messengers(dialect: Dialect, redis: str | None) -> tuple[Notifier | None, SettingsCache | None]:
    """How processes notify each other, and where they find settings without asking the database."""
    if redis is None:
        return dialect.notifier(), None
    namespace = str(dialect.identity())
    return RedisNotifier(redis, namespace), RedisSettingsCache(redis, namespace)


def refuse_server(url: str, why: str) -> None:
    """For operations that need the database itself."""
    if _is_remote(url):
        raise InvalidArgument(f"{why}: give the URL of its database")


def _is_remote(url: object) -> bool:
    return isinstance(url, str) and url.partition("://")[0].lower() in SCHEMES


def _local(options: dict[str, Any]) -> dict[str, Any]:
    if options.get("api_key") is not None:
        raise InvalidArgument("api_key is for servers (http://…): a database is opened without one")
    return {name: value for name, value in options.items() if name != "api_key"}


def _server(
    url: str,
    *,
    maintenance: bool = True,  # noqa: ARG001  # the server decides, as it does about the tables
    migrate: bool = True,  # noqa: ARG001
    timeout: Duration | None = None,
    api_key: str | None = None,
    **others: Any,
) -> tuple[Address, float]:
    """The address of the server, and for how many seconds to try."""
    for name, value in others.items():
        if name not in ConnectOptions.__annotations__:
            raise TypeError(f"connect() got an unexpected keyword argument {name!r}")
        if value is not None:
            raise InvalidArgument(f"{name} cannot be chosen by a client: it is set where the server is started")
    address = Address(url, api_key)
    options = address.options
    seconds = _timeout(options, timeout)
    if options:
        raise InvalidArgument(f"unknown URL parameter {next(iter(options))!r}: URLs of servers take timeout")
    return address, seconds


def _dialect(url: str, timeout: Duration | None, *, must_exist: bool = False) -> Dialect:
    if not isinstance(url, str):
        raise InvalidArgument(f"a database URL is needed, such as sqlite:///jobs.db, not {type(url).__name__}")
    try:
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        seconds = _timeout(options, timeout)
        if parts.scheme in _POSTGRESQL_SCHEMES:
            return _open_postgresql(parts, options, seconds)
        if parts.scheme in _MARIADB_SCHEMES:
            return _open_mariadb(parts, options, seconds)
        if parts.scheme == "sqlite" and not parts.netloc and parts.path.startswith("/"):
            return _open_sqlite(parts, options, seconds, must_exist=must_exist)
    except ValueError:  # its text may contain part of a password
        raise InvalidArgument(_NO_URL) from None
    wrong = {"": "this is not a URL", "sqlite": "a SQLite path follows three slashes"}
    raise InvalidArgument(
        f"{wrong.get(parts.scheme, f'rowq does not know a database for {parts.scheme}://…')}: "
        "use sqlite:///jobs.db, sqlite:////absolute/path/jobs.db, "
        "postgresql://user:password@host/database, mariadb://user:password@host/database, or http://host:8080 for a server"
    )


def _timeout(options: dict[str, str], given: Duration | None) -> float:
    text = options.pop("timeout", None)
    if given is None and text is not None:
        try:
            given = float(text)
        except ValueError:
            raise InvalidArgument(f"timeout must be seconds, not {text}") from None
    return DEFAULT_TIMEOUT if given is None else to_ms(given, "timeout", least=1, most=3_600_000) / 1000


def _open_sqlite(parts: SplitResult, options: dict[str, str], timeout: float, *, must_exist: bool) -> Dialect:
    from rowq.store.sqlite.dialect import Sqlite

    durability = _durability(options, "send")
    _check_rest(options, "sqlite URLs take durability and timeout")
    return Sqlite(check_text(unquote(parts.path[1:]), "the path"), durability=durability, timeout=timeout, must_exist=must_exist)


def _open_postgresql(parts: SplitResult, options: dict[str, str], timeout: float) -> Dialect:
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


def _open_mariadb(parts: SplitResult, options: dict[str, str], timeout: float) -> Dialect:
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
        raise InvalidArgument(_NO_URL)  # an unescaped password: the message must not show any of it
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
