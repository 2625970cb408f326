"""The pages that start Spark, one after another in one process: a JVM takes seconds to start, and a page may end its session in it.

Run as `python -m tests.docs.alone README.md docs/guide/spark.md` in an empty folder, which is emptied behind each page; what was printed
otherwise than shown goes to stderr. It is a process of its own since a page ends its session, and other tests may be using theirs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.docs.likeness import is_like
from tests.docs.page import ROOT, Page, page
from tests.docs.running import Run

WITHIN = 280


def starts_spark(page: Page) -> bool:
    return any("rowq.spark" in block.text for block in page.blocks)


def run_alone(pages: Sequence[Page], folder: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.docs.alone", *(page.path for page in pages)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=WITHIN, check=False)
    assert done.returncode == 0, done.stderr[-5_000:]


def main(paths: Sequence[str]) -> int:
    for path in paths:
        for result in Run(page(path)).results():
            if not is_like(result.printed, result.shown):
                sys.stderr.write(f"{result.where} printed\n{result.printed}\nand the page shows\n{result.shown}\n")
                return 1
        _empty(Path.cwd())
    return 0


def _empty(folder: Path) -> None:
    for left in folder.iterdir():
        if left.is_dir():
            shutil.rmtree(left)
        else:
            left.unlink()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
