"""`import rowq` and `rowq --help` are quick, and bring nothing along that only servers, terminals or other databases need."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.packaging.environment import Environment

HEAVY = {
    "MySQLdb",
    "adbc_driver_postgresql",
    "django",
    "greenlet",
    "h2",
    "httptools",
    "jinja2",
    "jsonschema_rs",
    "opentelemetry",
    "prometheus_client",
    "psycopg",
    "pyarrow",
    "pydantic",
    "pymysql",
    "pyspark",
    "redis",
    "rich",
    "sqlalchemy",
    "sqlite3",
    "starlette",
    "typer",
    "uvicorn",
    "uvloop",
    "yaml",
}
OWN = tuple(f"rowq.{room}" for room in ("cli.", "server", "spark", "pipeline", "copier", "tabular", "publishing", "ledger", "compat"))
IMPORT_SECONDS = 0.150
COMMAND_SECONDS = 0.4
TRIES = 40

_BROUGHT = "import sys, rowq; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
_MODULES = "import sys, rowq; print(*sorted(name for name in sys.modules if name.startswith('rowq.')))"
_TIMED = "import time; began = time.process_time(); {}; print(time.process_time() - began)"


def test_nothing_heavy_comes_along(environment: Environment, tmp_path: Path) -> None:
    brought = set(environment.run(tmp_path, "python", "-c", _BROUGHT).stdout.split())
    assert "rowq" in brought
    assert not brought & HEAVY


def test_no_module_of_the_server_the_pages_the_pipeline_or_the_command_line_comes_along(bare: Environment, tmp_path: Path) -> None:
    brought = bare.run(tmp_path, "python", "-c", _MODULES).stdout.split()
    assert "rowq.broker" in brought
    assert [name for name in brought if name.startswith(OWN)] == []


def test_a_command_brings_no_server_along(environment: Environment, tmp_path: Path) -> None:
    listed = environment.run(tmp_path, "python", "-c", _BROUGHT.replace("rowq;", "rowq.cli.main;")).stdout.split()
    assert "typer" in listed
    assert not set(listed) & {"starlette", "uvicorn", "uvloop", "jinja2", "psycopg", "pyspark"}


@pytest.mark.prove("a speed, of which a busy machine knows nothing; test_nothing_heavy_comes_along stands for it")
@pytest.mark.parametrize(
    ("code", "limit"),
    [("import rowq", IMPORT_SECONDS), ("from rowq.cli.main import main; main(['--help'])", COMMAND_SECONDS)],
    ids=["import", "command"],
)
def test_it_begins_quickly(environment: Environment, code: str, limit: float, tmp_path: Path) -> None:
    """The time of the processor, and the best of several tries: others may be using the machine, which only ever adds to it."""
    tried: list[float] = []
    while not tried or (tried[-1] >= limit and len(tried) < TRIES):
        tried.append(float(environment.run(tmp_path, "python", "-c", _TIMED.format(code)).stdout.split()[-1]))
    assert tried[-1] < limit, f"{code} took {tried}"
