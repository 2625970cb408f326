"""Every fault does what its name says, and leaves everything as it was: a harness whose faults do nothing would find nothing."""

from __future__ import annotations

import random
import socket
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psutil
import pytest

import rowq
from tests.support.asking import connection_to
from tests.support.astray import Offset
from tests.support.background import Background
from tests.support.patience import eventually
from tests.support.way import CuttableWay
from trust.torture.actor import Actor
from trust.torture.database import KINDS
from trust.torture.faults import FAULTS, Fault
from trust.torture.plan import faults_of, plan
from trust.torture.scene import Scene, opened

PARTS = (("producer", "library"), ("consumer", "library"), ("operator", "http"))
BY_NAME = {fault.name: fault for fault in FAULTS}


@pytest.fixture(
    scope="module", params=["sqlite", *(pytest.param(kind, marks=pytest.mark.prove("20 s; SQLite stands for it")) for kind in KINDS[1:])]
)
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with opened(request.param, tmp_path_factory.mktemp("scene"), 1, PARTS) as scene:
        yield scene


@pytest.fixture
def strike(scene: Scene) -> Iterator[Callable[[str], None]]:
    """To its end, each time as chance has it."""
    choose = random.Random(1)
    yield lambda name: fault_for(scene, name).strike(scene, choose)
    assert works(scene), "the fault has left something behind"


@pytest.fixture
def during(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Callable[[], object]], None]:
    """While the fault lasts, which is until the condition comes true, and then it is cut short."""

    def strike(name: str, condition: Callable[[], object]) -> None:
        fault = fault_for(scene, name)
        monkeypatch.setattr(
            scene, "hold", lambda seconds: scene.is_over.wait(2 if name == "disk full" else 60)
        )  # a disk is filled 20 times
        under_way = Background(lambda: fault.strike(scene, random.Random(name)))
        try:
            eventually(lambda: condition() or not under_way.is_running, 60)
            assert under_way.is_running, "it was over, and nothing was seen of it"
        finally:
            scene.is_over.set()
            under_way.result(60)
            scene.is_over.clear()
        assert works(scene), "the fault has left something behind"

    return strike


def fault_for(scene: Scene, name: str) -> Fault:
    if scene.kind not in BY_NAME[name].kinds:
        pytest.skip(f"{name} has no meaning on {scene.kind}")
    return BY_NAME[name]


def works(scene: Scene) -> bool:
    for url in (*scene.database.played_urls, *(server.url for server in scene.servers)):
        with rowq.connect(url) as broker:
            broker.stats("plain")
    return True


def actor_of(scene: Scene, role: str) -> Actor:
    return next(member.actor for member in scene.cast.members if member.role == role)


def state_of(actor: Actor) -> str:
    return str(psutil.Process(actor.pid).status())


def gone(pid: int) -> bool:
    return not psutil.pid_exists(pid)


@contextmanager
def calling(way: CuttableWay) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", way.port)) as connection:
        connection.settimeout(60)
        eventually(lambda: way.connections, 60)
        yield connection


def hears_the_end(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        while connection.recv(1000):
            pass
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True
    return True


@pytest.mark.parametrize("name", ["producer killed", "consumer killed", "operator killed"])
def test_one_is_killed_and_another_comes(scene: Scene, strike: Callable[[str], None], name: str) -> None:
    role = name.split(maxsplit=1)[0]
    killed = actor_of(scene, role)
    strike(name)
    assert gone(killed.pid)
    assert actor_of(scene, role).name != killed.name
    assert not actor_of(scene, role).has_ended


@pytest.mark.parametrize("name", ["producer stopped", "consumer stopped"])
def test_one_stands_still_and_goes_on(scene: Scene, during: Callable[..., None], name: str) -> None:
    role = name.split(maxsplit=1)[0]
    during(name, lambda: state_of(actor_of(scene, role)) == psutil.STATUS_STOPPED)
    assert state_of(actor_of(scene, role)) != psutil.STATUS_STOPPED


def test_everybody_is_killed(scene: Scene, strike: Callable[[str], None]) -> None:
    before = [actor.pid for actor in (*(member.actor for member in scene.cast.members), *(server.actor for server in scene.servers))]
    strike("everybody killed")
    assert all(map(gone, before))


@pytest.mark.parametrize("name", ["server killed", "server restarted"])
def test_a_server_ends_and_is_there_again(scene: Scene, strike: Callable[[str], None], name: str) -> None:
    before = {server.actor.pid for server in scene.servers}
    strike(name)
    assert [gone(pid) for pid in before].count(True) == 1


def test_a_server_stands_still(scene: Scene, during: Callable[..., None]) -> None:
    during("server stopped", lambda: psutil.STATUS_STOPPED in [state_of(server.actor) for server in scene.servers])


@pytest.mark.parametrize("name", ["database restarted", "database killed"])
def test_the_database_ends_and_is_there_again(scene: Scene, strike: Callable[[str], None], name: str) -> None:
    fault_for(scene, name)
    before = scene.served.server.pid
    strike(name)
    assert gone(before) or psutil.Process(before).status() == psutil.STATUS_ZOMBIE
    assert scene.served.server.is_running


def test_the_database_stands_still(scene: Scene, during: Callable[..., None]) -> None:
    fault_for(scene, "database stopped")
    during("database stopped", lambda: psutil.Process(scene.served.server.pid).status() == psutil.STATUS_STOPPED)


def test_backends_are_killed(scene: Scene, strike: Callable[[str], None]) -> None:
    fault_for(scene, "backends killed")
    with closing(connection_to(scene.database.url)) as connection:

        def is_cut() -> bool:
            strike("backends killed")
            try:
                connection.cursor().execute("SELECT 1")
            except Exception:  # each driver has its own word for it
                return True
            return False

        assert eventually(is_cut, 60)


def ways_of(scene: Scene, name: str) -> list[CuttableWay]:
    fault_for(scene, name)
    return [scene.served.way] if name.startswith("database") else [server.way for server in scene.servers]


@pytest.mark.parametrize("name", ["database's connections cut", "server's connections cut"])
def test_connections_are_cut(scene: Scene, strike: Callable[[str], None], name: str) -> None:
    with calling(ways_of(scene, name)[0]) as connection:

        def is_cut() -> bool:
            strike(name)
            return hears_the_end(connection)

        assert eventually(is_cut, 60)


@pytest.mark.parametrize("name", ["database's connections slow", "server's connections slow"])
def test_connections_are_slow(scene: Scene, during: Callable[..., None], name: str) -> None:
    during(name, lambda: any(way.delay for way in ways_of(scene, name)))
    assert not any(way.delay for way in ways_of(scene, name))


@pytest.mark.parametrize("name", ["database's connections stalled", "server's connections stalled"])
def test_connections_stand_still(scene: Scene, during: Callable[..., None], name: str) -> None:
    during(name, lambda: not all(way.flows.is_set() for way in ways_of(scene, name)))
    assert all(way.flows.is_set() for way in ways_of(scene, name))


def test_the_disk_is_full(scene: Scene, during: Callable[..., None]) -> None:
    disk = scene.database.disk
    if disk is None:
        pytest.skip("only root may mount a disk that can be filled")

    def is_full() -> bool:
        if disk.free:
            return False
        if scene.kind == "mariadb":
            return True
        size = 200_000 if scene.kind == "sqlite" else 10_000  # SQLite writes over what is in its log already
        with rowq.connect(scene.database.url, maintenance=False) as broker:
            try:
                broker.send_many("other", ["x" * size] * 100)
            except rowq.StoreFull:
                return True
        return False  # another thread has just made room

    during("disk full", is_full)
    assert disk.free > 1 << 30


def test_a_clock_jumps_and_returns(scene: Scene, during: Callable[..., None]) -> None:
    def offsets() -> list[int]:
        return [Offset(clock).ms for clock in {*(m.clock for m in scene.cast.members), *(s.clock for s in scene.servers)}]

    assert not any(offsets())
    during("clock jumped", lambda: any(offsets()))
    assert not any(offsets())


def test_somebody_holds_the_write_lock(scene: Scene, during: Callable[..., None]) -> None:
    fault_for(scene, "write lock held")
    locked = 0

    def is_locked() -> bool:
        nonlocal locked
        with closing(sqlite3.connect(scene.file.path, isolation_level=None, timeout=0.1)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                locked += 1
            else:
                locked = 0
        return locked >= 3

    during("write lock held", is_locked)


def test_an_abandoned_transaction_leaves_nothing_but_a_longer_log(scene: Scene, strike: Callable[[str], None]) -> None:
    fault_for(scene, "transaction abandoned")
    with closing(sqlite3.connect(scene.file.path, isolation_level=None, timeout=20)) as connection:
        eventually(lambda: connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0)
        strike("transaction abandoned")
        assert Path(f"{scene.file.path}-wal").stat().st_size > 1_000_000
        assert connection.execute("SELECT COUNT(*) FROM sqlite_master WHERE name = 'litter'").fetchone() == (0,)


def test_the_log_is_checkpointed_by_another(scene: Scene, strike: Callable[[str], None]) -> None:
    """Cut off, as often as nobody reads in it; and others write into it again at once."""
    fault_for(scene, "log checkpointed")
    log = Path(f"{scene.file.path}-wal")
    largest = 0

    def has_shrunk() -> bool:
        nonlocal largest
        size = log.stat().st_size
        largest = max(largest, size)
        return size < largest

    def is_seen() -> bool:
        under_way = Background(lambda: strike("log checkpointed"))
        seen = eventually(lambda: "shrunk" if has_shrunk() else "" if under_way.is_running else "over")
        under_way.result(60)
        return seen == "shrunk"

    assert eventually(is_seen, 60)


@pytest.mark.parametrize("kind", KINDS)
def test_a_plan_has_every_fault_and_depends_on_the_seed_alone(kind: str) -> None:
    possible = {fault.name for fault in faults_of(kind, has_disk=True)}
    planned = [fault.name for fault in plan(kind, 7, 200, has_disk=True)]
    assert set(planned) == possible
    assert planned == [fault.name for fault in plan(kind, 7, 200, has_disk=True)]
    assert planned != [fault.name for fault in plan(kind, 8, 200, has_disk=True)]
    assert "disk full" not in {fault.name for fault in plan(kind, 7, 200, has_disk=False)}


def test_every_fault_is_tried_here() -> None:
    here = Path(__file__).read_text(encoding="utf-8")
    assert [fault.name for fault in FAULTS if f'"{fault.name}"' not in here] == []
