"""What failed once: a file for each input, in a folder for each target. All of them are tried in every run of the tests."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

FOLDER = Path(__file__).parent / "corpus"


def kept(target: str, folder: Path = FOLDER) -> list[Path]:
    return sorted((folder / target).glob("*"))


def keep(target: str, data: bytes, folder: Path = FOLDER) -> Path:
    """Puts an input to the others; rename the file, when the fault is fixed, to a name that says what it was."""
    path = folder / target / f"found-{sha256(data).hexdigest()[:12]}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path
