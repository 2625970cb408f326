"""Every program in the documents runs, and prints what the page says."""

from __future__ import annotations

import os
import re
import shlex
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from rowq.server.api.routes import ROUTES
from tests.docs.alone import run_alone, starts_spark
from tests.docs.likeness import is_like
from tests.docs.page import ROOT, Page, pages
from tests.docs.running import CONSOLE, KNOWN, OUTPUT, PYTHON, SHELL, Run, install_commands
from tests.support.jvm import hasten_drivers
from tests.support.servers import own_postgresql
from tests.support.servers.postgresql import NEWEST, _programs

PAGES = pages()
RUNNABLE = [page for page in PAGES if any(block.info in (PYTHON, CONSOLE) for block in page.blocks)]
WITH_SPARK = [page for page in RUNNABLE if starts_spark(page)]
LONG = {"docs/tutorial.md": "it starts Spark twice, in processes of their own; the README and the tests of the pipeline stand for it"}


def by_path(page: Page) -> str:
    return page.path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to run a page in, with `rowq` on the PATH."""
    commands = install_commands(tmp_path / "bin")
    folder = tmp_path / "page"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("ROWQ_URL", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("PATH", str(commands), prepend=":")
    return folder


@pytest.fixture
def postgresql(page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """For a page that talks to the PostgreSQL of this machine: one that is found without a name, with its programs on the PATH."""
    if not any("postgresql:///" in block.text for block in page.blocks if block.info in (PYTHON, CONSOLE)):
        yield
        return
    with own_postgresql(tmp_path) as server:
        for name, value in (("PGHOST", server.place), ("PGPORT", server.port), ("PGUSER", "postgres")):
            monkeypatch.setenv(name, str(value))
        monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{_programs(NEWEST)}")
        yield


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.prove(reason)] if (reason := LONG.get(page.path)) else [], id=page.path)
        for page in RUNNABLE
        if page not in WITH_SPARK
    ],
)
@pytest.mark.usefixtures("postgresql")
def test_a_page_runs_from_top_to_bottom(page: Page, folder: Path) -> None:
    if any("rowq pipeline" in block.text for block in page.blocks):
        hasten_drivers()
    before = set(threading.enumerate())  # earlier tests of this process may have left some behind on purpose
    for result in Run(page).results():
        assert is_like(result.printed, result.shown), f"{result.where} printed\n{result.printed}\nand the page shows\n{result.shown}"
    left = [thread.name for thread in set(threading.enumerate()) - before if thread.name.startswith("rowq-")]
    assert not left, f"{page.path} leaves a broker open: close it, or use `with`"


@pytest.mark.timeout(600)
def test_the_readme_runs_from_top_to_bottom(folder: Path) -> None:
    hasten_drivers()
    run_alone([page for page in WITH_SPARK if page.path == "README.md"], folder)


@pytest.mark.prove("the guides of Spark, 90 s; the README stands for them")
@pytest.mark.timeout(600)
def test_the_pages_that_start_spark_run_from_top_to_bottom(folder: Path) -> None:
    assert {page.path for page in WITH_SPARK} >= {"README.md", "docs/guide/spark.md"}
    hasten_drivers()
    run_alone([page for page in WITH_SPARK if page.path != "README.md"], folder)


@pytest.mark.parametrize("page", PAGES, ids=by_path)
def test_every_block_is_of_a_kind_that_is_checked(page: Page) -> None:
    unknown = [f"line {block.line}: ```{block.info}" for block in page.blocks if block.info not in KNOWN]
    assert not unknown, f"{page.path}: {unknown}; write one of {sorted(KNOWN)}, and nothing behind it"


@pytest.mark.parametrize("page", PAGES, ids=by_path)
def test_shown_output_belongs_to_a_program(page: Page) -> None:
    before = ""
    for block in page.blocks:
        assert block.info != OUTPUT or before == PYTHON, f"{page.path}:{block.line}: nothing prints this; a drawing has no kind at all"
        before = block.info


EXTRAS = set(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"])
TARGETS = set(re.findall(r"^([a-z]+):.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=by_path)
def test_commands_that_are_only_shown_exist(page: Page) -> None:
    for line in (line for block in page.blocks if block.info == SHELL for line in block.text.splitlines()):
        match line.partition(" #")[0].split():
            case ["make", target, *_]:
                assert target in TARGETS, f"{page.path}: there is no `make {target}`"
            case ["python", path]:
                assert (ROOT / path).is_file(), f"{page.path}: there is no {path}"
            case ["pip", "install", target]:
                named = re.fullmatch(r"'?(?:\.|rowq)(?:\[([\w,-]+)\])?'?", target)
                assert named, f"{page.path}: `{line}` installs neither a checkout nor rowq"
                assert {*(named[1] or "").split(",")} <= {"", *EXTRAS}, f"{page.path}: `{line}` names an extra that is not there"
            case ["python3", "-m", "venv", _] | [".", _]:
                pass
            case ["curl", *_]:
                _check_request(*shlex.split(line)[1:])
            case _:
                pytest.fail(f"{page.path}: nobody checks `{line}`; a line that can run belongs in a console block")


def _check_request(url: str, data_flag: str, body: str) -> None:
    """A POST that is only shown: the server has such a route, and it takes such a body."""
    assert data_flag == "-d"
    path = url.removeprefix("localhost:8080")
    route = next(route for route in ROUTES if route.method == "POST" and re.fullmatch(re.sub(r"{\w+}", r"[\\w.-]+", route.path), path))
    msgspec.json.decode(body, type=route.body)


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("1\n2\n", "1\n2\n"),
        ("a   b\n", "a b\n"),
        ("0190163d-8694-7000-8000-00000000002a\n", "0190163d-8694-7000-8000-00000000002b\n"),
        ("sent 5s ago\n", "sent now\n"),
        ("a\nb\nc\n", "a\n…\n"),
        ("one 17 three\n", "one … three\n"),
    ],
)
def test_output_that_means_the_same_is_alike(printed: str, shown: str) -> None:
    assert is_like(printed, shown)


@pytest.mark.parametrize(
    ("printed", "shown"),
    [("1\n", "2\n"), ("1\n", ""), ("", "1\n"), ("a\nb\n", "a\n"), ("one 17 four\n", "one … three\n"), ("axb\n", "a.b\n")],
)
def test_output_that_differs_is_not_alike(printed: str, shown: str) -> None:
    assert not is_like(printed, shown)
