"""A machine with a database on a drive of its own, whose power may fail."""

from __future__ import annotations

import random
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable

import rowq
from tests.disasters.drive import Drive
from tests.rivals.process import Rival
from tests.support.servers import OwnServer, own_mariadb, own_postgresql
from tests.support.servers.server import Setting


class Machine(ABC):
    """Switched on. `url` names a database with empty tables."""

    url: str

    def __init__(self, megabytes: int) -> None:
        self._drive = Drive(megabytes)

    @abstractmethod
    def set(self, setting: str) -> str:
        """The URL under which this holds: `durability=full`, or what a server is told, as in `fsync=off`. Nothing is the usual."""

    def lose_power(self, rival: Rival, when: Callable[[], object], choose: random.Random) -> int:
        """While a process is at work; then everything is started again, but for the process. Gives the last moment of which it is sure
        that there was power: whoever waits for the disk just then may be told that it has what it will never have."""
        with self._drive.leaking(choose):
            when()
            moment = rival.moment()
            self._drive.pull_the_plug()
        rival.kill()
        self._die()
        self._drive.plug_in()
        self._boot()
        return moment

    def remove(self) -> None:
        self._die()
        self._drive.remove()

    def _prepare(self) -> None:
        """Tables are there, also if what made them did not wait for the disk."""
        rowq.migrate(self.url)
        subprocess.run(["sync", "--file-system", str(self._drive.folder)], check=True, timeout=60)

    @abstractmethod
    def _die(self) -> None: ...

    @abstractmethod
    def _boot(self) -> None: ...


class WithSqlite(Machine):
    def __init__(self) -> None:
        super().__init__(64)
        self.url = f"sqlite:///{self._drive.folder / 'jobs.db'}"
        self._prepare()

    def set(self, setting: str) -> str:
        return f"{self.url}?{setting}" if setting else self.url

    def _die(self) -> None:
        """It lives in the process that uses it."""

    def _boot(self) -> None: ...


class WithServer(Machine):
    def __init__(self, kind: str) -> None:
        super().__init__(256)
        try:
            self._server = self._install(kind)
        except BaseException:
            self._drive.remove()
            raise
        self._usual = dict(self._server.settings)
        self._server.create_database("shop")
        self.url = self._server.url("shop")
        self._prepare()

    def set(self, setting: str) -> str:
        name, _, value = setting.partition("=")
        is_ours = name == "durability"
        self._tell({name: {"on": True, "off": False}.get(value, value)} if setting and not is_ours else {})
        return f"{self.url}&{setting}" if is_ours else self.url

    def _tell(self, settings: dict[str, Setting]) -> None:
        wanted = {**self._usual, **settings}
        if wanted != self._server.settings:
            self._server.stop()
            self._server.settings.clear()
            self._server.settings.update(wanted)
        self._server.start()  # where it runs, it goes on

    def _die(self) -> None:
        OwnServer.kill(self._server)  # and no more: nothing on the drive can be removed any longer

    def _boot(self) -> None:
        self._server.kill()  # what marks it as running
        self._server.start()

    def remove(self) -> None:
        self._die()
        self._server.close()
        super().remove()

    def _install(self, kind: str) -> OwnServer:
        if kind == "postgresql":
            return own_postgresql(self._drive.folder, fsync=True, full_page_writes=True)
        return own_mariadb(self._drive.folder, innodb_flush_log_at_trx_commit=1, innodb_log_file_size="16M")


def new_machine(kind: str) -> Machine:
    return WithSqlite() if kind == "sqlite" else WithServer(kind)
