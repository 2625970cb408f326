"""Where a lake keeps its files: the few operations that the manifest and the vacuum need from a file system."""

from __future__ import annotations

import os
import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from rowq.errors import InvalidArgument

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
"""One slash is enough: a URL that was handled as a path has lost the other. A single letter is a drive."""


class Stored(NamedTuple):
    """A file: its path from the root of the lake, with slashes."""

    name: str
    size: int
    written_at: int
    """Milliseconds since 1970."""


class Storage(ABC):
    """Names are paths below the root of the lake. Only `put_new` has to be atomic: an object store has a conditional put for it."""

    root: str
    """As Spark gets it."""

    @abstractmethod
    def put_new(self, name: str, data: bytes) -> bool:
        """Writes a new file, complete and durable; False, and nothing written, if it already exists."""

    @abstractmethod
    def read(self, name: str) -> bytes: ...

    @abstractmethod
    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder, without its path, in order; none if the folder does not exist."""

    @abstractmethod
    def files(self, folder: str) -> Iterator[Stored]:
        """All files below a folder, without their checksum files."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Also removes the checksum that Spark puts next to it. A missing file is not an error."""

    @abstractmethod
    def path(self, name: str) -> str:
        """As Spark and Arrow get it."""


class Folder(Storage):
    """A folder that the driver and all executors see: a local disk, or a shared one."""

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()
        self.root = str(self._root)

    def put_new(self, name: str, data: bytes) -> bool:
        target = self._root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
        try:
            with draft.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.link(draft, target)  # unlike a rename, it fails if another process was first
        except FileExistsError:
            return False
        finally:
            with suppress(FileNotFoundError):
                draft.unlink()
        _sync_folder(target.parent)
        return True

    def read(self, name: str) -> bytes:
        return (self._root / name).read_bytes()

    def names(self, folder: str) -> list[str]:
        path = self._root / folder
        return sorted(entry.name for entry in path.iterdir() if entry.is_file()) if path.is_dir() else []

    def files(self, folder: str) -> Iterator[Stored]:
        for path in sorted((self._root / folder).rglob("*")):
            with suppress(FileNotFoundError):  # writers remove their drafts meanwhile
                if path.is_file() and not (path.suffix == ".crc" and path.with_name(path.name[1:-4]).exists()):
                    facts = path.stat()
                    yield Stored(path.relative_to(self._root).as_posix(), facts.st_size, int(facts.st_mtime * 1000))

    def remove(self, name: str) -> None:
        path = self._root / name
        path.unlink(missing_ok=True)
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        with suppress(OSError):  # not empty: it has other files
            for parent in path.relative_to(self._root).parents[:-2]:
                (self._root / parent).rmdir()

    def path(self, name: str) -> str:
        return str(self._root / name)


def open_storage(lake: str | os.PathLike[str]) -> Storage:
    """From a path, or a file:// URL."""
    text = os.fspath(lake)
    scheme = _SCHEME.match(text)
    if not text.strip():
        raise InvalidArgument("a lake needs a folder: name one, such as lake or /data/lake")
    if scheme is not None and scheme[1].lower() != "file":
        raise InvalidArgument(f"a lake is a folder that this machine sees, which {scheme[1]}: is not: name a path, or mount the store")
    return Folder(Path(text if scheme is None else unquote(urlsplit(text).path)))


def _sync_folder(folder: Path) -> None:
    """A new name is on disk only once its folder is."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
