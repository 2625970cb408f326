"""Real servers for tests and benchmarks: PostgreSQL, MariaDB and Redis, started on demand and gone with the run."""

from tests.support.servers.mariadb import MariadbServer, own_mariadb
from tests.support.servers.pgbouncer import PgbouncerServer, own_pgbouncer
from tests.support.servers.pool import fresh, give_back
from tests.support.servers.postgresql import PostgresqlServer, own_postgresql
from tests.support.servers.redis import RedisServer, own_redis
from tests.support.servers.server import OwnServer, Server, Unavailable
from tests.support.servers.shared import shared_mariadb, shared_postgresql, shared_redis

__all__ = [
    "MariadbServer",
    "OwnServer",
    "PgbouncerServer",
    "PostgresqlServer",
    "RedisServer",
    "Server",
    "Unavailable",
    "fresh",
    "give_back",
    "own_mariadb",
    "own_pgbouncer",
    "own_postgresql",
    "own_redis",
    "shared_mariadb",
    "shared_postgresql",
    "shared_redis",
]
