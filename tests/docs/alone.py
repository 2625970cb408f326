"""A page in a process of its own, for one that starts Spark: a process has one session, and other tests may be using it.

Run as `python -m tests.docs.alone docs/guide/spark.md` in an empty folder; what was printed otherwise than shown goes to stderr.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.docs.likeness import is_like
from tests.docs.page import ROOT, Page, page
from tests.docs.running import Run


def starts_spark(page: Page) -> bool:
    return any("rowq.spark" in block.text for block in page.blocks)


def run_alone(page: Page, folder: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.docs.alone", page.path]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-5_000:]


def main(path: str) -> int:
    for result in Run(page(path)).results():
        if not is_like(result.printed, result.shown):
            sys.stderr.write(f"{result.where} printed\n{result.printed}\nand the page shows\n{result.shown}\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
