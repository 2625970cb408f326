"""The manifest of a lake: numbered versions, each a small JSON file that is written once and lists files added and removed.

The manifest defines what is in the lake. A file that no version names was left by a run that did not finish.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec

from rowq.errors import InvalidArgument, LakeBusy, LakeError
from rowq.store.stream.segment import Kind

FOLDER = "_manifest"
FORMAT = 1
_NAME = re.compile(r"(\d{20})\.json")
_MOST_TRIES = 20
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
"""One slash is enough: a URL that was handled as a path has lost the other. A single letter is a drive."""


class File(msgspec.Struct, frozen=True):
    """A Parquet file, by its path from the root of the lake."""

    name: str
    rows: int
    size: int

    @property
    def kind(self) -> str:
        return self.name.partition("/")[0]

    @property
    def date(self) -> str:
        """The day of its rows, as in the name of its folder."""
        return self.name.partition("/date=")[2].partition("/")[0]


class Range(msgspec.Struct, frozen=True):
    """A segment in the lake: which lines of the database it holds."""

    kind: Kind
    number: int
    first: int
    last: int
    rows: int


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a lake. `identity` identifies its database, `lake` the lake among those of that database."""

    version: int
    format: int = FORMAT
    lake: str
    identity: int
    at: int
    action: Literal["made", "archived", "compacted"]
    segment: Range | None = None
    add: tuple[File, ...] = ()
    remove: tuple[str, ...] = ()


class Snapshot(msgspec.Struct, frozen=True):
    """The content of the lake as of a version."""

    version: int
    lake: str
    identity: int
    segments: Mapping[tuple[str, int], Range]
    """By kind and number."""
    files: Mapping[str, File]
    """By name, in the order in which they were added."""

    def files_of(self, kind: str) -> list[File]:
        return [file for file in self.files.values() if file.kind == kind]

    def last_segment(self, kind: str) -> Range | None:
        return max(
            (segment for segment in self.segments.values() if segment.kind == kind), key=lambda segment: segment.number, default=None
        )


class Manifest:
    """The versions of one lake. Any number of processes may read and write it."""

    def __init__(self, storage: Folder) -> None:
        self._storage = storage

    def snapshot(self) -> Snapshot | None:
        """As of the newest version; None if there is no lake yet."""
        found: Snapshot | None = None
        for number, name in enumerate(filter(_NAME.fullmatch, self._storage.names(FOLDER)), 1):
            if name != _name(number):
                raise LakeError(f"version {number} of the lake's manifest is missing: restore {FOLDER}/{_name(number)} from a backup")
            found = _follow(found, self._read(number))
        return found

    def append(self, next_version: Callable[[Snapshot | None], Version | None]) -> Snapshot | None:
        """Writes the version that follows the newest one; called again whenever another process was first. None writes nothing."""
        for _ in range(_MOST_TRIES):
            before = self.snapshot()
            version = next_version(before)
            if version is None:
                return before
            if self._storage.put_new(f"{FOLDER}/{_name(version.version)}", msgspec.json.encode(version)):
                return _follow(before, version)
        raise LakeBusy("other processes keep writing to the lake; nothing was written: try again")

    def _read(self, number: int) -> Version:
        try:
            version = msgspec.json.decode(self._storage.read(f"{FOLDER}/{_name(number)}"), type=Version)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise LakeError(f"{FOLDER}/{_name(number)} is not a version of a manifest ({error}): restore it from a backup") from None
        if version.format > FORMAT:
            raise LakeError(f"the lake was written by a newer rowq, in format {version.format}; this one reads {FORMAT}: upgrade it")
        return version


def _follow(before: Snapshot | None, version: Version) -> Snapshot:
    segments = dict(before.segments) if before else {}
    files = dict(before.files) if before else {}
    for name in version.remove:
        files.pop(name, None)
    files.update((file.name, file) for file in version.add)
    if version.segment is not None:
        segments[version.segment.kind, version.segment.number] = version.segment
    return Snapshot(version.version, version.lake, version.identity, segments, files)


def _name(number: int) -> str:
    return f"{number:020d}.json"


class Stored(NamedTuple):
    """A file: its path from the root of the lake, with slashes."""

    name: str
    size: int
    written_at: int
    """Milliseconds since 1970."""


class Folder:
    """Where a lake keeps its files: a folder that the driver and all executors see, on a local disk or a shared one. Names are paths below
    it. Only `put_new` has to be atomic."""

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()
        self.root = str(self._root)
        """As Spark gets it."""

    def put_new(self, name: str, data: bytes) -> bool:
        """Writes a new file, complete and durable; False, and nothing written, if it already exists."""
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
        """The names of the files in a folder, without its path, in order; none if the folder does not exist."""
        path = self._root / folder
        return sorted(entry.name for entry in path.iterdir() if entry.is_file()) if path.is_dir() else []

    def files(self, folder: str) -> Iterator[Stored]:
        """All files below a folder, without their checksum files."""
        for path in sorted((self._root / folder).rglob("*")):
            with suppress(FileNotFoundError):  # writers remove their drafts meanwhile
                if path.is_file() and not (path.suffix == ".crc" and path.with_name(path.name[1:-4]).exists()):
                    facts = path.stat()
                    yield Stored(path.relative_to(self._root).as_posix(), facts.st_size, int(facts.st_mtime * 1000))

    def remove(self, name: str) -> None:
        """Also removes the checksum that Spark puts next to it. A missing file is not an error."""
        path = self._root / name
        path.unlink(missing_ok=True)
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        with suppress(OSError):  # not empty: it has other files
            for parent in path.relative_to(self._root).parents[:-2]:
                (self._root / parent).rmdir()

    def path(self, name: str) -> str:
        """As Spark and Arrow get it."""
        return str(self._root / name)


def open_storage(lake: str | os.PathLike[str]) -> Folder:
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
