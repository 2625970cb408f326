"""Confirmation before something that cannot be undone."""

from __future__ import annotations

import sys

from rowq import InvalidArgument
from rowq.cli.failure import Failure
from rowq.cli.text import visible


def confirm(question: str, *, yes: bool) -> None:
    """Continues only after `--yes` or a typed yes; a script without --yes gets an error instead of a prompt that waits."""
    if yes:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise InvalidArgument(f"cannot ask {question!r} without a terminal: add --yes")
    sys.stderr.write(f"{visible(question)} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Failure("nothing was changed", code="declined")
