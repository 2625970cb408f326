"""The command `rowq`, which also starts if its dependencies are not installed."""

from __future__ import annotations

import sys

_NEEDED = {"typer", "rich", "click", "shellingham"}


def main() -> int:
    try:
        from rowq.cli.main import main as run
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in _NEEDED:
            raise
        sys.stderr.write("The command rowq needs packages that are not installed: pip install 'rowq[cli]'\n")
        return 1
    return run()
