"""The manifest of a lake: numbered versions, each a small JSON file that is written once and lists files added and removed.

The manifest defines what is in the lake. A file that no version names was left by a run that did not finish.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

from rowq.errors import LakeBusy, LakeError
from rowq.spark.pipeline.storage import Storage
from rowq.store.stream.segment import Kind

FOLDER = "_manifest"
FORMAT = 1
_NAME = re.compile(r"(\d{20})\.json")
_MOST_TRIES = 20


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

    def __init__(self, storage: Storage) -> None:
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
