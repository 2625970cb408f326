"""An environment with rowq's wheel and what that asks for, with an extra or without, and nothing else: what a user gets from `pip install`.

The packages it asks for are lent by the environment of the tests, so that no network is needed. What is not asked for is not there.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import venv
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tests.docs.page import ROOT


def build(folder: Path) -> tuple[Path, Path]:
    """The source archive of the tree, and the wheel that is built from that archive alone; those of the folder, if they are there."""
    if not list(folder.glob("*.whl")):
        _hatch(ROOT, "sdist", folder)
        (archive,) = folder.glob("*.tar.gz")
        with tarfile.open(archive) as packed:
            packed.extraction_filter = getattr(tarfile, "data_filter", None)  # unlike the argument, harmless before Python 3.11.4
            packed.extractall(folder)  # noqa: S202  # it was built a moment ago
        _hatch(folder / archive.name.removesuffix(".tar.gz"), "wheel", folder)
    (archive,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return archive, wheel


def _hatch(tree: Path, target: str, folder: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)], cwd=tree, check=True, capture_output=True, timeout=60
    )


class Environment:
    def __init__(self, folder: Path, wheel: Path, extra: str = "") -> None:
        self.folder = folder
        self.python = folder / "bin/python"
        if not (folder / "bin/rowq").exists():
            self._install(wheel, extra)

    def _install(self, wheel: Path, extra: str) -> None:
        venv.create(self.folder, clear=True, symlinks=True)
        (packages,) = self.folder.glob("lib/python*/site-packages")
        for name in asked_for(extra):
            for part in _parts(distribution(name)):
                (packages / part.name).symlink_to(part)
        pip = [sys.executable, "-m", "pip", "--python", str(self.python), "install", "--quiet", "--no-index", "--no-deps", str(wheel)]
        subprocess.run(pip, check=True, capture_output=True, timeout=60, env=clean(self.folder))

    def run(self, folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
        """A command of the environment, in a folder of the caller's."""
        return subprocess.run(
            [str(self.folder / "bin" / command[0]), *command[1:]],
            cwd=folder,
            env=clean(self.folder),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


def clean(folder: Path) -> dict[str, str]:
    """Variables that lead to no other package, and let bytecode be kept, as it is on a user's machine."""
    known = {name: value for name, value in os.environ.items() if not name.startswith(("ROWQ_", "PYTHON", "PIP_"))}
    return {**known, "NO_COLOR": "1", "PYTHONPYCACHEPREFIX": str(folder / "bytecode"), "PATH": f"{folder}/bin:{os.environ['PATH']}"}


def asked_for(extra: str = "") -> set[str]:
    """The packages that rowq cannot do without, and those that they ask for in their turn; with what an extra adds."""
    found: set[tuple[str, str]] = set()
    ahead = [("rowq", ""), ("rowq", extra)]
    while ahead:
        if (asked := ahead.pop()) not in found:
            found.add(asked)
            for requirement in requirements(*asked):
                ahead += [(canonicalize_name(requirement.name), each) for each in ("", *requirement.extras)]
    return {name for name, _ in found} - {"rowq"}


def requirements(name: str, extra: str = "") -> Iterator[Requirement]:
    for text in distribution(name).requires or []:
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            yield requirement


def size(names: set[str]) -> int:
    """Bytes of their files, with the bytecode that pip makes of them."""
    return sum(path.stat().st_size for name in names for path in _files(distribution(name)))


def _parts(package: Distribution) -> set[Path]:
    """What lies in site-packages of it: folders and single files."""
    home = Path(str(package.locate_file("")))
    return {home / file.parts[0] for file in package.files or [] if file.parts[0] not in ("..", "__pycache__")}


def _files(package: Distribution) -> Iterator[Path]:
    yield from (path for file in package.files or [] if (path := Path(str(package.locate_file(file)))).is_file())
