"""PgBouncer from the system's packages, in front of a PostgreSQL of ours: a pooler that gives each transaction another connection."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import ClassVar

from tests.support.servers.postgresql import PostgresqlDatabases, PostgresqlServer
from tests.support.servers.server import OwnServer, Setting, program


class PgbouncerServer(PostgresqlDatabases, OwnServer):
    """Its databases are those of the server behind it, to which it is one and the same user, whoever comes."""

    name = "PgBouncer"
    stop_signal = signal.SIGTERM
    tuned: ClassVar[Mapping[str, Setting]] = {"pool_mode": "transaction", "max_client_conn": 300, "default_pool_size": 20}

    @classmethod
    def check(cls) -> None:
        program("pgbouncer", "pgbouncer")

    def url(self, database: str) -> str:
        return f"postgresql://anybody@127.0.0.1:{self.port}/{database}"

    def _install(self) -> None:
        """Nothing: it keeps no data."""

    def _command(self) -> list[str]:
        said = {name: value for name, value in self.settings.items() if name != "behind"}
        said |= {"listen_addr": "127.0.0.1", "listen_port": self.port, "unix_socket_dir": "", "auth_type": "any"}
        lines = ["[databases]", f"* = {self.settings['behind']}", "[pgbouncer]", *(f"{name} = {value}" for name, value in said.items())]
        configuration = self.place / "pgbouncer.ini"
        configuration.write_text("\n".join(lines), encoding="utf-8")
        configuration.chmod(0o644)
        return [program("pgbouncer", "pgbouncer"), str(configuration)]

    def _answers(self) -> bool:
        return "process up" in self.said()


def own_pgbouncer(server: PostgresqlServer, **settings: Setting) -> PgbouncerServer:
    """In front of a server: `with own_pgbouncer(server, pool_mode="session") as pooler`."""
    return PgbouncerServer.begin(None, {**settings, "behind": f"host={server.place} port={server.port} user=postgres"})
