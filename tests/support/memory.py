"""Temporary files in memory: what tests write lives for a moment, and a disk makes every commit wait, longest where others use it too."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import psutil

_FOLDER = Path("/dev/shm")  # noqa: S108  # folders below it get random names, as everywhere in temporary places
_NEEDED = 6 << 30
"""Bytes. Servers, databases and lakes of a whole run take about two gigabytes at a time."""


def keep_temporary_files_in_memory() -> None:
    """For this process and all that it starts: where there is room, and the user has named no other folder by TMPDIR."""
    if "TMPDIR" in os.environ or not _FOLDER.is_dir() or not os.access(_FOLDER, os.W_OK):
        return
    if min(shutil.disk_usage(_FOLDER).free, psutil.virtual_memory().available) > _NEEDED:
        os.environ["TMPDIR"] = str(_FOLDER)
        tempfile.tempdir = None  # it is remembered once it was asked for
