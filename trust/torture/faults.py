"""What goes wrong: each fault does its harm, lasts a while, is over, and has left everything running again."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psutil

from tests.support.patience import eventually
from tests.support.way import CuttableWay
from trust.torture.actor import Actor
from trust.torture.cast import Member
from trust.torture.database import KINDS
from trust.torture.meddler import BUSY
from trust.torture.queues import LEASES
from trust.torture.scene import Scene

Strike = Callable[[Scene, random.Random], None]
SERVERS = ("postgresql", "mariadb")
LONGEST_LEASE = max(LEASES)
_SOMEBODY = 60.0
"""Seconds until somebody is there to be cut off: whoever cuts nobody has done nothing."""
_LONGEST_MS = 50 * 60_000
"""Below the hour for which a server remembers sends that may be asked again."""


@dataclass(frozen=True)
class Fault:
    name: str
    strike: Strike
    hits: tuple[str, ...]
    """Of those that hit the same, one at a time."""
    kinds: tuple[str, ...] = KINDS
    weight: int = 1
    """How often, beside the others."""


def kill_one(role: str) -> Strike:
    def strike(scene: Scene, choose: random.Random) -> None:
        with scene.cast.borrowed(role, choose) as member:
            member.actor.kill()
            scene.cast.replace(member)

    return strike


def stop_one(role: str) -> Strike:
    """Longer than most leases last: it comes back with receipts that are stale."""

    def strike(scene: Scene, choose: random.Random) -> None:
        with scene.cast.borrowed(role, choose) as member, standing_still(member.actor):
            scene.hold(choose.uniform(LONGEST_LEASE * 0.8, LONGEST_LEASE * 1.6))

    return strike


def kill_all(scene: Scene, _: random.Random) -> None:
    """Everybody at the same moment, servers too: nobody is there to tidy up."""
    members: list[Member] = scene.cast.members
    for process in [*(member.actor for member in members), *(server.actor for server in scene.servers)]:
        os.kill(process.pid, signal.SIGKILL)
    for server in scene.servers:
        server.actor.kill()
        server.start()
    for member in members:
        member.actor.kill()
        scene.cast.replace(member)


def kill_server(scene: Scene, choose: random.Random) -> None:
    server = choose.choice(scene.servers)
    server.actor.kill()
    scene.hold(choose.choice((0, 0, 2)))
    server.start()


def restart_server(scene: Scene, choose: random.Random) -> None:
    server = choose.choice(scene.servers)
    code = server.actor.end()
    assert code == 0, f"{server.name} was told to end, and ended with {code}: {server.actor.complaint[-2000:]}"
    server.start()


def stop_server(scene: Scene, choose: random.Random) -> None:
    with standing_still(choose.choice(scene.servers).actor):
        scene.hold(choose.uniform(LONGEST_LEASE * 0.8, LONGEST_LEASE * 1.4))


def restart_database(scene: Scene, choose: random.Random) -> None:
    scene.served.server.stop()
    scene.hold(choose.choice((0, 0, 1, 6)))
    scene.served.server.start()


def kill_database(scene: Scene, _: random.Random) -> None:
    scene.served.server.kill()
    scene.served.server.start()


def stop_database(scene: Scene, choose: random.Random) -> None:
    """All its processes stand still, and connections with them."""
    parent = psutil.Process(scene.served.server.pid)
    family = [parent, *parent.children(recursive=True)]
    try:
        for process in family:
            _signal(process, signal.SIGSTOP)
        scene.hold(choose.uniform(0.5, LONGEST_LEASE))
    finally:
        for process in family:
            _signal(process, signal.SIGCONT)


def kill_backends(scene: Scene, choose: random.Random) -> None:
    for _ in range(choose.randint(1, 5)):
        eventually(lambda: scene.served.cut_backends(choose.choice((0.1, 0.5, 1))), _SOMEBODY)
        scene.hold(choose.uniform(0, 0.2))


def cut(way_of: Callable[[Scene, random.Random], CuttableWay]) -> Strike:
    def strike(scene: Scene, choose: random.Random) -> None:
        for _ in range(choose.randint(1, 5)):
            eventually(lambda: way_of(scene, choose).cut_some(choose), _SOMEBODY)
            scene.hold(choose.uniform(0, 0.2))

    return strike


def slow(way_of: Callable[[Scene, random.Random], CuttableWay]) -> Strike:
    """Every piece is late, or there are many pieces."""

    def strike(scene: Scene, choose: random.Random) -> None:
        way = way_of(scene, choose)
        usual = way.piece
        way.delay, way.piece = choose.choice(((0.02, usual), (0.2, usual), (0.005, 100)))
        scene.hold(choose.uniform(1, 3))
        way.delay, way.piece = 0, usual

    return strike


def stall(way_of: Callable[[Scene, random.Random], CuttableWay]) -> Strike:
    """Nothing passes, and nobody is told."""

    def strike(scene: Scene, choose: random.Random) -> None:
        way = way_of(scene, choose)
        way.flows.clear()
        scene.hold(choose.uniform(0.5, LONGEST_LEASE))
        if choose.random() < 0.5:
            way.cut_all()
        way.flows.set()

    return strike


def fill_disk(scene: Scene, choose: random.Random) -> None:
    disk = scene.database.disk
    assert disk is not None
    try:
        for _ in range(20):
            disk.fill()  # what others give up meanwhile is taken as well
            scene.hold(choose.uniform(0.02, 0.15))
    finally:
        disk.free_up()
    if scene.kind == "mariadb":
        scene.served.server.start()  # it ends where it cannot write


def jump(scene: Scene, choose: random.Random) -> None:
    """By seconds or by most of an hour, forward or back; and back again."""
    ms = choose.choice((-1, 1)) * choose.choice((1_500, 5_000, 60_000, _LONGEST_MS))
    clocks = scene.clocks(choose)
    for clock in clocks:
        clock.ms += ms
        scene.furthest_ms = max(scene.furthest_ms, clock.ms)
    scene.hold(choose.uniform(0.5, 3))
    for clock in clocks:
        clock.ms -= ms


def meddle(what: str, least: float, most: float) -> Strike:
    """Another program has the file open as well, and is killed in the middle of what it does."""

    def strike(scene: Scene, choose: random.Random) -> None:
        name = f"meddler-{what}-{choose.randrange(1 << 31)}"
        meddler = Actor(name, scene.folder, "trust.torture.meddler", what, str(scene.file.path))
        try:
            eventually(lambda: meddler.has_ended or BUSY in meddler.complaint, 60)
            scene.hold(choose.uniform(least, most))
            assert not meddler.has_ended, f"{name} ended by itself: {meddler.complaint}"
        finally:
            meddler.kill()

    return strike


@contextmanager
def standing_still(actor: Actor) -> Iterator[None]:
    actor.stand_still()
    try:
        yield
    finally:
        actor.go_on()


def _signal(process: psutil.Process, number: int) -> None:
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return


def _to_database(scene: Scene, _: random.Random) -> CuttableWay:
    return scene.served.way


def _to_server(scene: Scene, choose: random.Random) -> CuttableWay:
    """One that somebody uses just now, where there is one."""
    used = [server.way for server in scene.servers if server.way.connections]
    return choose.choice(used or [server.way for server in scene.servers])


FAULTS = (
    Fault("producer killed", kill_one("producer"), ("members",), weight=3),
    Fault("consumer killed", kill_one("consumer"), ("members",), weight=4),
    Fault("operator killed", kill_one("operator"), ("members",)),
    Fault("producer stopped", stop_one("producer"), ("a producer",)),
    Fault("consumer stopped", stop_one("consumer"), ("a consumer",), weight=4),
    Fault("everybody killed", kill_all, ("members", "a producer", "a consumer", "servers")),
    Fault("server killed", kill_server, ("servers",), weight=3),
    Fault("server restarted", restart_server, ("servers",)),
    Fault("server stopped", stop_server, ("servers",), weight=2),
    Fault("server's connections cut", cut(_to_server), ("way to a server",), weight=2),
    Fault("server's connections slow", slow(_to_server), ("way to a server",)),
    Fault("server's connections stalled", stall(_to_server), ("way to a server",)),
    Fault("disk full", fill_disk, ("database",), weight=2),
    Fault("clock jumped", jump, ("clock",), weight=4),
    Fault("database restarted", restart_database, ("database",), SERVERS, weight=2),
    Fault("database killed", kill_database, ("database",), SERVERS, weight=3),
    Fault("database stopped", stop_database, ("database",), SERVERS),
    Fault("backends killed", kill_backends, ("database",), SERVERS, weight=3),
    Fault("database's connections cut", cut(_to_database), ("way to the database",), SERVERS, weight=3),
    Fault("database's connections slow", slow(_to_database), ("way to the database",), SERVERS, weight=2),
    Fault("database's connections stalled", stall(_to_database), ("way to the database",), SERVERS),
    Fault("write lock held", meddle("hold", 0.5, 4), ("database",), ("sqlite",), weight=3),
    Fault("transaction abandoned", meddle("abandon", 0, 1), ("database",), ("sqlite",), weight=3),
    Fault("log checkpointed", meddle("checkpoint", 1, 3), ("database",), ("sqlite",), weight=2),
)
