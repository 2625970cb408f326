"""Generators of clients, installed as anybody installs them: once for a run, each in a folder of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

from tests.support.servers.run import current_run
from tests.support.servers.server import Unavailable, program

OPENAPI_PYTHON_CLIENT = "openapi-python-client==0.29.1"
"""Not in the environment of the tests: it asks for an older typer than ours."""
OPENAPI_TYPESCRIPT = {"openapi-typescript": "7.13.0", "typescript": "5.9.3"}
_WITHIN = 240


def python_generator() -> Path:
    """The Python of an environment that has openapi-python-client, and what its clients need."""

    def install(folder: Path) -> None:
        venv.create(folder, clear=True, symlinks=True)
        pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin/python"), "install", "--quiet", "--quiet"]
        _fetch([*pip, OPENAPI_PYTHON_CLIENT], folder, "openapi-python-client, from PyPI")

    return _installed("openapi-python-client", install) / "bin/python"


def typescript_generator() -> Path:
    """The folder with the programs openapi-typescript and tsc."""

    def install(folder: Path) -> None:
        folder.mkdir()
        npm = program("npm", "npm")
        (folder / "package.json").write_text(json.dumps({"private": True, "dependencies": OPENAPI_TYPESCRIPT}))
        _fetch([npm, "install", "--ignore-scripts", "--no-audit", "--no-fund"], folder, "openapi-typescript, by npm")

    return _installed("openapi-typescript", install) / "node_modules/.bin"


def checked(command: list[str], folder: Path) -> str:
    """What a program prints, which must end well."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_WITHIN, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def _installed(name: str, install: Callable[[Path], None]) -> Path:
    run = current_run()
    folder, done = run.folder / name, run.folder / f"{name}.installed"
    with run.locked(name):
        if not done.exists():
            install(folder)
            done.touch()
    return folder


def _fetch(command: list[str], folder: Path, what: str) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_WITHIN, check=False)
    if done.returncode != 0:
        raise Unavailable(f"{what}: {done.stderr.strip().splitlines()[-1:] or done.returncode}")
