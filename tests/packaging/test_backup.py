"""The backups of the guide come back whole: its own commands are run, on a queue in use, and into another database."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

import rowq
from tests.docs.page import page
from tests.support.servers import Unavailable, fresh, shared_mariadb, shared_postgresql
from tests.support.servers.postgresql import NEWEST, _programs

BLOCKS = [block.text for block in page("docs/guide/backup.md").blocks]


def commands(program: str) -> str:
    """The block of the guide that begins with this program."""
    (found,) = [text for text in BLOCKS if text.startswith(f"{program} ")]
    return found


def run(script: str, folder: Path, source: str, target: str, programs: str = "") -> None:
    variables = {**os.environ, "SOURCE": source, "TARGET": target, "PATH": f"{programs}:{os.environ['PATH']}"}
    done = subprocess.run(["sh", "-ec", script], cwd=folder, env=variables, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def live_until_the_backup(url: str) -> tuple[str, str]:
    """A message that is under a lease when it is made, and one that waits for another with the same group."""
    with rowq.connect(url, maintenance=False) as broker:
        broker.configure("q", max_attempts=7)
        leased, waiting = broker.send("q", {"number": 1}, group="g"), broker.send("q", {"number": 2}, group="g")
        broker.receive("q", lease=0.05)
    return leased, waiting


def check_that_it_came_back(url: str, leased: str, waiting: str) -> None:
    with rowq.connect(url) as broker:
        assert broker.settings("q").max_attempts == 7
        assert [event.event for event in broker.audit(leased)][:2] == ["enqueued", "delivered"]
        new = broker.send("q", {"number": 3}, group="g")
        taken: list[str] = []
        while len(taken) < 3:
            for delivery in broker.receive("q", wait=5):
                broker.ack(delivery)
                taken.append(delivery.id)
        assert taken == [leased, waiting, new]
        assert broker.stats("q").depth == 0


def test_postgresql(tmp_path: Path) -> None:
    programs = str(_programs(NEWEST))
    source, target = fresh(shared_postgresql()), fresh(shared_postgresql())
    ids = live_until_the_backup(source)
    run(commands("pg_dump"), tmp_path, source, target, programs)
    live_until_the_backup(source)
    run(commands("psql"), tmp_path, source, target, programs)
    check_that_it_came_back(target, *ids)


def options(url: str) -> str:
    """A URL as the programs of MariaDB want it."""
    parts = urlsplit(url)
    socket = dict(parse_qsl(parts.query)).get("unix_socket")
    place = f"--socket={socket}" if socket else f"--host={parts.hostname} --port={parts.port or 3306}"
    password = f" --password={unquote(parts.password)}" if parts.password else ""
    return f"{place} --user={unquote(parts.username or '')}{password} {parts.path.strip('/')}"


def test_mariadb(tmp_path: Path) -> None:
    if shutil.which("mariadb-dump") is None:
        raise Unavailable("mariadb-dump is not installed: it comes with MariaDB")
    source, target = fresh(shared_mariadb()), fresh(shared_mariadb())
    ids = live_until_the_backup(source)
    run(commands("mariadb-dump"), tmp_path, options(source), options(target))
    live_until_the_backup(source)
    run(commands("mariadb"), tmp_path, options(source), options(target))
    check_that_it_came_back(target, *ids)
