"""The Dockerfile does what it says, as far as can be seen without Docker: its sources are there, and what it starts runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.driver import Run
from tests.docs.page import ROOT
from tests.packaging.environment import requirements
from tests.packaging.instructions import lets_through, read
from tests.support.patience import eventually

DEPLOY = ROOT / "deploy"
IGNORED = DEPLOY / "Dockerfile.dockerignore"
BUILD, IMAGE = read(DEPLOY / "Dockerfile")
SECRET = "rowq_" + "s" * 43


def test_every_source_is_there_and_in_the_context() -> None:
    sources = [source for stage, given, _ in BUILD.copies if stage is None for source in given]
    assert "src" in sources
    assert all((ROOT / source).exists() and lets_through(IGNORED, source) for source in sources)


@pytest.mark.parametrize("path", [".git/config", ".venv/pyvenv.cfg", "rowq.db", "deploy/.env", "src/rowq/__pycache__/broker.pyc"])
def test_nothing_else_gets_into_the_context(path: str) -> None:
    assert not lets_through(IGNORED, path)


def test_the_context_holds_what_the_build_asks_for() -> None:
    """The readme and the licence are part of the wheel."""
    named = re.findall(r'^(?:readme = "|license-files = \[")([^"]+)', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(named) == {"README.md", "LICENSE"} <= {source for _, given, _ in BUILD.copies for source in given}


def test_the_image_takes_the_environment_and_nothing_else() -> None:
    assert IMAGE.copies == [(BUILD.name, ["/opt/rowq"], "/opt/rowq")]
    assert IMAGE.image == BUILD.image, "an environment works with the Python that made it"


def test_the_extras_exist() -> None:
    found = re.search(r"\[([\w,]+)\]", BUILD.runs[0])
    assert found is not None
    base = set(requirements("rowq"))
    assert all(set(requirements("rowq", extra)) - base for extra in found[1].split(","))


def test_nobody_is_root_and_the_folder_is_theirs() -> None:
    assert IMAGE.told["USER"].isdigit() and f"--uid {IMAGE.told['USER']} " in IMAGE.runs[0]
    assert IMAGE.told["WORKDIR"] == IMAGE.told["VOLUME"] and IMAGE.runs[0].endswith(IMAGE.told["WORKDIR"])


def test_no_secret_is_part_of_it() -> None:
    told = " ".join([*IMAGE.variables, *BUILD.variables])
    assert not re.search(r"KEY|SECRET|PASSWORD|TOKEN", told)


def start(folder: Path, **variables: str) -> subprocess.Popen[bytes]:
    """What the container would start, with its variables; its ports are free ones."""
    (folder / "bin").mkdir()
    program = folder / "bin/rowq"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m rowq.cli.main "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    known = {name: value for name, value in os.environ.items() if not name.startswith("ROWQ_")}
    path = IMAGE.variables["PATH"].replace("/opt/rowq/bin", str(program.parent)).replace("$PATH", os.environ["PATH"])
    with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        return subprocess.Popen(
            [*IMAGE.words("ENTRYPOINT"), *IMAGE.words("CMD")],
            cwd=folder,
            env={**known, **IMAGE.variables, "PATH": path, "ROWQ_PORT": "0", "ROWQ_ADMIN_PORT": "0", **variables},
            stdout=out,
            stderr=err,
        )


@pytest.fixture
def started(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = start(tmp_path, ROWQ_API_KEY=SECRET)
    yield process
    process.kill()
    process.wait()


def test_it_starts_is_found_healthy_and_stops_by_its_signal(started: subprocess.Popen[bytes], tmp_path: Path) -> None:
    found = eventually(lambda: re.search(r" at http://\S+:(\d+)", (tmp_path / "out").read_text(encoding="utf-8")))
    assert found is not None
    python, *check = (word.replace(":8080/", f":{found[1]}/") for word in IMAGE.words("HEALTHCHECK"))
    assert python == "python"
    assert subprocess.run([sys.executable, *check], check=False, timeout=60).returncode == 0
    assert IMAGE.told["STOPSIGNAL"] == "SIGTERM"
    started.terminate()
    assert started.wait(60) == 0
    assert subprocess.run([sys.executable, *check], check=False, timeout=60, capture_output=True).returncode != 0


def test_without_a_key_it_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command of the image with its variables, in this process."""
    for name, value in {**IMAGE.variables, "ROWQ_PORT": "0", "ROWQ_ADMIN_PORT": "0"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("ROWQ_API_KEY", raising=False)
    monkeypatch.chdir(tmp_path)
    program, *command = (*IMAGE.words("ENTRYPOINT"), *IMAGE.words("CMD"))
    told = Run(monkeypatch)(*command)
    assert (program, told.exit_code) == ("rowq", 2)
    assert "ROWQ_API_KEY" in told.err


def test_an_instruction_that_nobody_checks_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM a\nADD b c\n", encoding="utf-8")
    with pytest.raises(ValueError, match="ADD"):
        read(tmp_path / "Dockerfile")
