"""Where the queues are, for driver and executors: each process reads the credentials itself, so that they appear in no query plan."""

from __future__ import annotations

import os
import platform
from urllib.parse import quote, urlsplit, urlunsplit

from msgspec import Struct

from rowq.errors import InvalidArgument

_SQLITE = "sqlite:///"
_DATABASES = ("sqlite", "postgresql", "postgres", "mariadb", "mysql")


class Address(Struct, frozen=True):
    """`host` is set if the database is a file, which exists on one machine only."""

    bare: str
    credentials_env: str | None = None
    host: str | None = None

    def url(self) -> str:
        """The URL to connect with in this process."""
        if self.host is not None and self.host != platform.node():
            raise InvalidArgument(
                f"{self.bare} is a file on {self.host}, but this task runs on {platform.node()}: use a local master, or keep the queues "
                "in PostgreSQL or MariaDB (`rowq copy` copies them there)"
            )
        return self.bare if self.credentials_env is None else _with_credentials(self.bare, self.credentials_env)


def to_address(url: str, credentials_env: str | None) -> Address:
    scheme = url.partition("://")[0].lower()
    if scheme not in _DATABASES:
        served = " Spark reads the tables themselves, not a server: give the URL of its database." if scheme in ("http", "https") else ""
        raise InvalidArgument(f"option url: {scheme}://… is not a database that rowq knows; use one of {', '.join(_DATABASES)}.{served}")
    if scheme != "sqlite":
        return Address(url, credentials_env)
    if credentials_env is not None:
        raise InvalidArgument("option credentialsEnv: SQLite is opened without credentials; leave it out")
    if not url.startswith(_SQLITE):
        raise InvalidArgument("option url: a SQLite database is written sqlite:///jobs.db, or sqlite:////absolute/path/jobs.db")
    path, mark, rest = url.removeprefix(_SQLITE).partition("?")
    # Workers may run in another folder than the driver.
    return Address(f"{_SQLITE}{os.path.abspath(path)}{mark}{rest}", host=platform.node())  # noqa: PTH100  # keeps symbolic links


def _with_credentials(url: str, variable: str) -> str:
    secret = os.environ.get(variable)
    if not secret:
        raise InvalidArgument(
            f"option credentialsEnv: the environment of {platform.node()} has no {variable}; set it to user:password on the driver and "
            f"on the executors (spark.executorEnv.{variable})"
        )
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    user, colon, password = secret.partition(":")
    if not colon:
        user, password = parts.username or "", secret
    return urlunsplit(parts._replace(netloc=f"{quote(user, safe='')}:{quote(password, safe='')}@{place}"))
