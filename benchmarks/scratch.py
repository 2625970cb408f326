"""Where the databases of a run live: a folder on a real disk, gone afterwards."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

HERE = Path(__file__).parent / ".scratch"


class Scratch:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._numbers = count(1)

    @contextmanager
    def room(self) -> Iterator[Path]:
        """An empty folder for one contestant's turn; what it leaves is removed at once, so that no turn finds a fuller disk."""
        path = self.folder / str(next(self._numbers))
        path.mkdir()
        try:
            yield path
        finally:
            shutil.rmtree(path)


@contextmanager
def scratch(parent: Path | None = None) -> Iterator[Scratch]:
    """In `parent`, else beside this file: the temporary folder of many systems is memory, where a commit costs nothing."""
    parent = parent or HERE
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        Path(folder).chmod(0o711)  # root runs a database server as somebody else, who must get through
        yield Scratch(Path(folder))


def url(file: Path, durability: str) -> str:
    return f"sqlite:///{file.absolute()}?durability={durability}"
