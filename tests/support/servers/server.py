"""A server that tests and benchmarks talk to: its databases, and its process where that is ours to start and stop."""

from __future__ import annotations

import json
import random
import shutil
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import mkdtemp
from types import TracebackType
from typing import ClassVar, Self

from tests.support.patience import eventually
from tests.support.servers.process import SEARCH_PATH, Account, Process
from tests.support.servers.run import current_run

Setting = str | int | bool

_PORTS = range(15_000, 32_000)
"""Below those that systems give to outgoing connections: a server that is started again must find its port free."""
_PORT_TAKEN = "Address already in use"


class Unavailable(Exception):
    """A server that cannot be had here; the text says how to get it."""


class Server(ABC):
    """Whatever answers at `url(…)`."""

    name: ClassVar[str]

    @abstractmethod
    def url(self, database: str) -> str:
        """As rowq takes it."""

    @abstractmethod
    def create_database(self, name: str) -> None: ...

    @abstractmethod
    def drop_database(self, name: str) -> None:
        """Whoever is still connected to it is cut off."""


@dataclass(frozen=True)
class Site:
    """Where a server of ours is to be found."""

    place: str
    """Its sockets and its log: a short path, since that of a socket may have a hundred letters only."""
    data: str
    port: int
    settings: dict[str, Setting]


class OwnServer(Server):
    """A process of ours on data of its own. It may be stopped or killed, and started again on the same data and the same port."""

    accounts: ClassVar[tuple[str, ...]] = ("nobody",)
    """Whom it runs as where we are root: the first of these that there is."""
    stop_signal: ClassVar[int]
    tuned: ClassVar[Mapping[str, Setting]] = {}
    """Settings that a test wants; what the caller gives comes first."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.place = Path(site.place)
        self.data = Path(site.data)
        self.port = site.port
        self.settings = site.settings
        self.log = self.place / "log"
        self.account = Account.first_of(*self.accounts)

    @classmethod
    def begin(cls, folder: Path | None, settings: Mapping[str, Setting]) -> Self:
        """A new server, with its data below the folder where its user can get there, else in a place of the run."""
        cls.check()
        account = Account.first_of(*cls.accounts)
        place = current_run().place()
        account.give(place)
        data = Path(mkdtemp(prefix="data-", dir=folder if folder is not None and account.may_enter(folder) else place))
        account.give(data)
        server = cls(Site(str(place), str(data), free_port(), {**cls.tuned, **settings}))
        try:
            server._install()
            server._start_somewhere()
        except BaseException:
            server.close()
            raise
        return server

    @classmethod
    def join(cls, site: str) -> Self:
        """The same server, for another process of the run."""
        return cls(Site(**json.loads(site)))

    def address(self) -> str:
        """What `join` takes."""
        return json.dumps(asdict(self.site))

    @classmethod
    @abstractmethod
    def check(cls) -> None:
        """Raises Unavailable where its programs are missing."""

    @property
    def pid(self) -> int:
        process = self._process()
        if process is None:
            raise RuntimeError(f"this {self.name} is not running")
        return process.pid

    @property
    def is_running(self) -> bool:
        return self._process() is not None

    def start(self) -> None:
        """Returns when it answers."""
        if self.is_running:
            return
        self.log.unlink(missing_ok=True)
        process = self.account.launch(self._command(), self.log)
        process.write(self.place / "process")
        current_run().enter(process, self.stop_signal)
        try:
            eventually(self._answers_or_has_ended, within=60)
        except AssertionError as late:
            raise RuntimeError(f"{self.name} runs and does not answer:\n{self.said()}") from late

    def stop(self) -> None:
        """In good order: what was answered is on disk, connections are cut."""
        self._end(lambda process: process.end(self.stop_signal, within=30))

    def kill(self) -> None:
        """SIGKILL, for it and all its processes: as a crash."""
        self._end(lambda process: process.kill())

    def restart(self) -> None:
        self.stop()
        self.start()

    def close(self) -> None:
        """Stops it for good and removes its data."""
        self.stop()
        shutil.rmtree(self.data, ignore_errors=True)
        shutil.rmtree(self.place, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def said(self) -> str:
        """The end of its log."""
        return self.log.read_text(encoding="utf-8", errors="replace")[-4000:] if self.log.exists() else ""

    @abstractmethod
    def _install(self) -> None:
        """Makes the empty data that it starts on."""

    @abstractmethod
    def _command(self) -> list[str]: ...

    @abstractmethod
    def _answers(self) -> bool: ...

    def _process(self) -> Process | None:
        process = Process.read(self.place / "process")
        return process if process is not None and process.is_running else None

    def _start_somewhere(self) -> None:
        """Between finding a port free and listening there, somebody else may take it."""
        for _ in range(5):
            try:
                return self.start()
            except RuntimeError:
                if _PORT_TAKEN not in self.said():
                    raise
                self.port = free_port()
                self.site = Site(str(self.place), str(self.data), self.port, self.settings)
        raise RuntimeError(f"{self.name} found no free port")

    def _answers_or_has_ended(self) -> bool:
        if not self.is_running:
            raise RuntimeError(f"{self.name} ended instead of starting:\n{self.said()}")
        return self._answers()

    def _end(self, how: Callable[[Process], None]) -> None:
        process = self._process()
        if process is not None:
            how(process)
            current_run().leave(process)


def program(name: str, package: str) -> str:
    """Where a program of the system lies."""
    found = shutil.which(name, path=SEARCH_PATH)
    if found is None:
        raise Unavailable(f"{name} is not installed: apt-get install {package} (`make test` does it where it may)")
    return found


def free_port() -> int:
    while True:
        port = random.choice(_PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
