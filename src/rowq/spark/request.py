"""What the user asks of the source, as plain values that travel to executors: a batch read, two kinds of streams, a write."""

from __future__ import annotations

import logging
import os
import platform
import re
from urllib.parse import quote, urlsplit, urlunsplit

from msgspec import Struct

import rowq
from rowq.errors import InvalidArgument, QueueNotFound
from rowq.model.mapping import Mapping
from rowq.model.queue import check_name, check_own_name, split_name
from rowq.spark.options import EARLIEST, EXACTLY_ONCE, LATEST, LEASE, LOG, READ, SINK_COLUMNS, WRITE, Given
from rowq.spark.publish import MOST_ROWS
from rowq.spark.tables import FILTERS

_log = logging.getLogger("rowq.spark")

_SQLITE = "sqlite:///"
_DATABASES = ("sqlite", "postgresql", "postgres", "mariadb", "mysql")


class Address(Struct, frozen=True):
    """Where the queues are, for driver and executors: each process reads the credentials itself, so that they appear in no query plan.
    `host` is set if the database is a file, which exists on one machine only."""

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


class Queues(Struct, frozen=True):
    """Queues by name or by pattern; all of them if neither is given."""

    names: tuple[str, ...] | None = None
    pattern: str | None = None
    creates: bool = False

    def resolve(self, at: Address, *, insists: bool = False) -> tuple[str, ...] | None:
        """The current names; None means all. A missing queue may be mistyped: a batch read warns about it, and a stream, which would wait
        for ever, insists on it."""
        if self.names is None and self.pattern is None:
            return None
        with rowq.connect(at.url(), maintenance=False, migrate=False) as broker:
            if self.names is not None:
                for name in self.names:
                    self._look_for(broker, split_name(name)[0], insists=insists)
                return self.names
            found = tuple(each.queue for each in broker.queues() if re.fullmatch(self.pattern or "", each.queue))
        if not found:
            raise InvalidArgument(f"option queuePattern: no queue name matches {self.pattern!r}; `rowq stats` lists them")
        return found

    def _look_for(self, broker: rowq.Broker, name: str, *, insists: bool) -> None:
        try:
            broker.settings(name)
        except QueueNotFound as error:
            if self.creates:
                broker.configure(name)
            elif insists:
                raise QueueNotFound(
                    f"{error.sentence}; a stream may begin before its queue with option createQueue=true", error.alike
                ) from None
            else:
                _log.warning("%s", error)


class Parts(Struct, frozen=True):
    """Into how many tasks a read is split."""

    least: int
    most_records: int | None


class Request(Struct, frozen=True):
    """What is read, and by how many tasks."""

    at: Address
    queues: Queues
    parts: Parts


class Read(Request, frozen=True):
    table: str
    states: tuple[str, ...] | None
    where: tuple[tuple[str, str], ...]
    first: int | None
    last: int | None
    since_ms: int | None
    until_ms: int | None


class Lease(Request, frozen=True):
    stream: str
    order: str
    most: int
    most_bytes: int | None
    least: int | None
    delay_ms: int
    poll_ms: int
    beat_ms: int
    timeout_ms: int | None
    ahead: int
    fails_on_loss: bool


class Log(Request, frozen=True):
    table: str
    start: int | str
    since_ms: int | None
    most: int
    poll_ms: int
    fails_on_loss: bool


class Write(Struct, frozen=True):
    at: Address
    mapping: Mapping
    is_direct: bool
    sink: str
    transaction: tuple[str, int] | None
    rows: int


def to_read(given: Given) -> Read:
    given.use(READ)
    given.only_one("startingPosition", "startingTimestamp")
    given.only_one("endingPosition", "endingTimestamp")
    table = given["table"] or "messages"
    if given["states"] and table != "messages":
        raise InvalidArgument(f"option states: only messages have several states, and table is {table}; leave it out")
    if given["startingPosition"] == LATEST or given["endingPosition"] == EARLIEST:
        raise InvalidArgument("a batch read from latest, or up to earliest, has nothing to read: give a number, or leave it out")
    first, last = (_row(given[name]) for name in ("startingPosition", "endingPosition"))
    since_ms, until_ms = given["startingTimestamp"], given["endingTimestamp"]
    for low, high, what in ((first, last, "Position"), (since_ms, until_ms, "Timestamp")):
        if low is not None and high is not None and low > high:
            raise InvalidArgument(f"option starting{what} is above ending{what} ({low} > {high}): swap them")
    where = given["where"] or ()
    filters = [name for name in FILTERS[table] if name not in ("state", "since", "until")]  # these have options of their own
    for name, _ in where:
        if name not in filters:
            raise InvalidArgument(f"option where: {table} cannot be filtered by {name!r}; it takes {', '.join(filters)}")
    return Read(_address(given), _queues(given), _parts(given), table, given["states"], where, first, last, since_ms, until_ms)


def to_lease(given: Given) -> Lease:
    given.use(LEASE)
    stream = given.need("streamId", "a name for this consumer, the same at every start; no two queries that run at a time may share it")
    queues = _queues(given)
    if queues.names is None and queues.pattern is None:
        raise InvalidArgument("a stream consumes messages: name its queues with option queue, queues or queuePattern")
    least, most = given["minMessagesPerTrigger"], given["maxMessagesPerTrigger"]
    if least is not None and least > most:
        raise InvalidArgument(
            f"option minMessagesPerTrigger is above maxMessagesPerTrigger ({least} > {most}): no batch could be that large"
        )
    if least is not None and given["prefetchBatches"]:
        raise InvalidArgument(
            "options prefetchBatches and minMessagesPerTrigger contradict each other: the one leases only full batches early, the other "
            "waits before it takes a small one; give one of them"
        )
    timeout_ms, beat_ms = given["streamTimeout"], given["heartbeatInterval"]
    if timeout_ms is not None and timeout_ms < 3 * beat_ms:
        raise InvalidArgument(
            "option streamTimeout must be at least three times heartbeatInterval, or running streams would be considered dead"
        )
    return Lease(
        _address(given),
        queues,
        _parts(given),
        stream,
        given["preserveOrder"],
        most,
        given["maxBytesPerTrigger"],
        least,
        given["maxTriggerDelay"],
        given["pollInterval"],
        beat_ms,
        timeout_ms,
        given["prefetchBatches"],
        given["failOnDataLoss"],
    )


def to_log(given: Given) -> Log:
    given.use(LOG)
    given.only_one("startingPosition", "startingTimestamp")
    table = given["table"] or "history"
    if table not in ("history", "audit"):
        raise InvalidArgument(f"option table: a stream with mode=log follows history or audit, not {table}; mode=lease takes messages")
    start = EARLIEST if given["startingPosition"] is None else given["startingPosition"]
    since_ms, most, poll_ms = given["startingTimestamp"], given["maxMessagesPerTrigger"], given["pollInterval"]
    return Log(_address(given), _queues(given), _parts(given), table, start, since_ms, most, poll_ms, given["failOnDataLoss"])


def to_write(given: Given, fields: list[str]) -> Write:
    """`fields` are the columns of the DataFrame that is written."""
    given.use(WRITE)
    given.only_one("queue", "queueColumn")
    if given["queue"] is None and given["queueColumn"] is None:
        raise InvalidArgument("option queue is missing: name the queue to send to, or with queueColumn the column that names it")
    queue = None if given["queue"] is None else check_own_name(given["queue"])
    columns: dict[str, str] = {}
    for role, field in SINK_COLUMNS.items():
        name = given[f"{role}Column"]
        if name is not None and name not in fields:
            raise InvalidArgument(f"option {role}Column: there is no column {name} in the DataFrame, which has {', '.join(fields)}")
        if name is not None:
            columns[field] = name
    mapping = Mapping(queue=queue, payload_as=given["payloadAs"], **columns)
    application, version = given["txnAppId"], given["txnVersion"]
    if (application is None) != (version is None):
        raise InvalidArgument("options txnAppId and txnVersion belong together: the writer, and the number of the write; give both or none")
    is_direct = given["deliveryMode"] != EXACTLY_ONCE
    if is_direct and (application is not None or "sinkId" in given):
        raise InvalidArgument("option deliveryMode=direct sends at least once without txnAppId, txnVersion or sinkId: leave them out")
    transaction = None if application is None else (application, version)
    if given["batchSize"] > MOST_ROWS:
        raise InvalidArgument(f"option batchSize: one transaction writes up to {MOST_ROWS} rows, not {given['batchSize']}")
    return Write(_address(given), mapping, is_direct, given["sinkId"], transaction, given["batchSize"])


def _address(given: Given) -> Address:
    url = given.need("url", "where the queues are, such as postgresql://user@host/database or sqlite:///jobs.db")
    return to_address(url, given["credentialsEnv"])


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


def _queues(given: Given) -> Queues:
    given.only_one("queue", "queues", "queuePattern")
    names = (given["queue"],) if "queue" in given else given["queues"]
    given_names = None if names is None else tuple(check_name(name) for name in names)
    return Queues(given_names, given["queuePattern"], given["createQueue"])


def _parts(given: Given) -> Parts:
    return Parts(given["minPartitions"] or os.cpu_count() or 1, given["maxRecordsPerPartition"])


def _row(position: int | str | None) -> int | None:
    return position if isinstance(position, int) else None
