"""A copy of rowq's source with a Python of its own, on whose path nothing else of rowq is.

The copy must be what every process of a test imports: `rowq serve`, a rival, a worker of Spark. A variable like PYTHONPATH is easily
lost on the way there; `sys.executable` is not. So the copy has a virtual environment that sees the packages of this one, and not
its editable install.
"""

from __future__ import annotations

import shutil
import site
import subprocess
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"


class Scratch:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.source = folder / "src"
        self.python = folder / "python" / "bin" / "python"

    @classmethod
    def make(cls, folder: Path, source: Path = SOURCE) -> Scratch:
        """A copy of the source, or of another copy; what is compiled already comes with it, as it has the same times."""
        made = cls(folder)
        shutil.copytree(source, made.source)
        venv.create(folder / "python", symlinks=True, with_pip=False)
        packages = next((folder / "python" / "lib").glob("python*/site-packages"))
        (packages / "rowq.pth").write_text("\n".join([str(made.source), *site.getsitepackages()]), encoding="utf-8")
        made.check()
        return made

    def check(self) -> None:
        """Where its Python finds rowq; it need not be fit to be imported."""
        asked = "import importlib.util as u; print(u.find_spec('rowq').origin)"
        done = subprocess.run([self.python, "-c", asked], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
        found = Path(done.stdout.strip())
        if found != self.source / "rowq" / "__init__.py":
            raise RuntimeError(f"tests of {self.source} would import {found}: is rowq installed by other means than 'make'?")

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
