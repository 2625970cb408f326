"""What the Makefile is going to do, by its own word: nothing is made here."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def planned(folder: Path, *words: str, **variables: str) -> str:
    known = {name: value for name, value in os.environ.items() if not name.startswith(("ROWQ_", "MAKE", "ARGS"))}
    command = ["make", "--dry-run", f"VENV={folder}/venv", *words]
    done = subprocess.run(command, cwd=ROOT, env={**known, **variables}, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout


@pytest.mark.parametrize(
    ("url", "extra"),
    [
        ("postgresql://db/app", "postgresql"),
        ("postgres://db/app", "postgresql"),
        ("mariadb://db/app", "mariadb"),
        ("mysql://db/app", "mariadb"),
    ],
)
def test_serving_a_database_installs_its_driver(tmp_path: Path, url: str, extra: str) -> None:
    for plan in (planned(tmp_path, "serve", f"ARGS=--url {url}"), planned(tmp_path, "serve", ROWQ_URL=url)):
        assert f"'.[{extra}]'" in plan
        assert plan.count("pip install") == 2


def test_serving_a_file_installs_the_server_and_no_driver(tmp_path: Path) -> None:
    plan = planned(tmp_path, "serve")
    assert plan.count("pip install") == 1
    assert ".[server]" in plan
