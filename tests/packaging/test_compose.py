"""The compose file fits together, and what it starts works together: a server on PostgreSQL and a worker, with the keys it gives them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

import rowq
from tests.docs.page import ROOT
from tests.packaging.instructions import read
from tests.support.patience import eventually
from tests.support.servers import fresh, shared_postgresql

FILE = ROOT / "deploy/compose.yaml"
COMPOSE: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
SERVICES: dict[str, Any] = COMPOSE["services"]
VARIABLE = re.compile(r"\$\{(\w+):\?[^}]*\}")
SECRETS = {"POSTGRES_PASSWORD": "p" * 20, "ROWQ_ADMIN_KEY": "a" * 20, "ROWQ_WORKER_KEY": "w" * 20}


def variables(service: str) -> dict[str, str]:
    """With the secrets that a user gives; a variable without one is an error, as it is for compose."""
    given: dict[str, str] = SERVICES[service]["environment"]
    return {name: VARIABLE.sub(lambda found: SECRETS[found[1]], value) for name, value in given.items()}


def test_every_secret_is_asked_for_and_none_is_given() -> None:
    text = FILE.read_text(encoding="utf-8")
    asked = re.findall(r"^(\w+)=(.*)$", (ROOT / "deploy/example.env").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(VARIABLE.findall(text)) == {name for name, _ in asked} == set(SECRETS)
    assert not any(value for _, value in asked)
    assert text.count("${") == len(VARIABLE.findall(text)), "a secret without `:?` would be empty"


def test_what_is_named_is_there() -> None:
    volumes = {volume.split(":")[0] for service in SERVICES.values() for volume in service.get("volumes", [])}
    assert {name for name in volumes if "/" not in name} == set(COMPOSE["volumes"])
    assert all((FILE.parent / name).is_file() for name in volumes if "/" in name)
    assert {name for service in SERVICES.values() for name in service["networks"]} == set(COMPOSE["networks"])
    build = SERVICES["server"]["build"]
    assert (FILE.parent / build["context"] / build["dockerfile"]).is_file()
    assert SERVICES["worker"]["image"] == SERVICES["server"]["image"]


def test_each_waits_for_what_it_needs_to_be_healthy() -> None:
    assert SERVICES["worker"]["depends_on"] == {"server": {"condition": "service_healthy"}}
    assert SERVICES["server"]["depends_on"] == {"postgresql": {"condition": "service_healthy"}}
    assert "HEALTHCHECK" in read(ROOT / "deploy/Dockerfile")[-1].told and "healthcheck" in SERVICES["postgresql"]


def test_only_this_machine_reaches_it_and_nobody_the_database() -> None:
    assert all(port.startswith("127.0.0.1:") for port in SERVICES["server"]["ports"])
    assert "ports" not in SERVICES["postgresql"] and COMPOSE["networks"]["database"] == {"internal": True}
    assert "database" not in SERVICES["worker"]["networks"]


def test_the_server_reaches_the_database_by_its_name() -> None:
    postgresql = variables("postgresql")
    user, password, database = (postgresql[f"POSTGRES_{name}"] for name in ("USER", "PASSWORD", "DB"))
    assert variables("server")["ROWQ_URL"] == f"postgresql://{user}:{password}@postgresql/{database}"
    assert variables("worker")["ROWQ_URL"] == "http://server:8080"


class Running:
    """The server and the worker as processes, with the variables that compose would give them."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        server = variables("server") | {"ROWQ_URL": fresh(shared_postgresql()), "ROWQ_PORT": "0", "ROWQ_ADMIN": "false"}
        self.server = self._start("server", ["-m", "rowq.cli.main", "serve", "--json"], server)
        self.url: str = msgspec.json.decode(eventually(lambda: self.told("server.out")))["url"]
        volume, *_ = SERVICES["worker"]["volumes"]
        source, target, _ = volume.split(":")
        python, program = SERVICES["worker"]["entrypoint"]
        assert (python, program) == ("python", target)
        self.worker = self._start("worker", [str(FILE.parent / source)], variables("worker") | {"ROWQ_URL": self.url})

    def told(self, file: str) -> str:
        return (self._folder / file).read_text(encoding="utf-8")

    def _start(self, name: str, command: list[str], given: dict[str, str]) -> subprocess.Popen[bytes]:
        known = {name: value for name, value in os.environ.items() if not name.startswith("ROWQ_")}
        with (self._folder / f"{name}.out").open("wb") as out, (self._folder / f"{name}.err").open("wb") as err:
            process = subprocess.Popen([sys.executable, *command], cwd=self._folder, env={**known, **given}, stdout=out, stderr=err)
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return process


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with ExitStack() as stack:
        yield Running(tmp_path, stack)


def test_a_message_goes_through_the_server_to_the_worker(running: Running) -> None:
    with rowq.connect(running.url, api_key=SECRETS["ROWQ_ADMIN_KEY"]) as admin:
        id = admin.send("orders", {"number": 7})
        eventually(lambda: id in running.told("worker.err") and admin.stats("orders").depth == 0)
    with rowq.connect(running.url, api_key=SECRETS["ROWQ_WORKER_KEY"]) as worker, pytest.raises(rowq.Forbidden):
        worker.receive("letters")
    for process in (running.worker, running.server):
        process.terminate()
        assert process.wait(60) == 0, running.told("worker.err") + running.told("server.err")
