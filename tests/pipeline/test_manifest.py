"""A manifest is a row of versions, each written once and whole, and what is in the lake follows from them."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import msgspec
import pytest

from rowq import InvalidArgument, LakeBusy, LakeError, LakeMismatch
from rowq.spark.pipeline.lake import Lake
from rowq.spark.pipeline.maintenance import vacuum
from rowq.spark.pipeline.manifest import FOLDER, File, Folder, Manifest, Range, Snapshot, Version, open_storage

A, B, C = (File(f"history/date=2026-01-3{day}/piece=1-aa/part-{day}.parquet", 10, 100) for day in range(3))


def made(lake: Path) -> Lake:
    found = Lake(lake)
    found.opened(identity=7, now=1)
    return found


def segment(number: int) -> Range:
    return Range("history", number, number * 10, number * 10 + 9, 10)


def put(lake: Path, file: File, age_days: float = 0) -> Path:
    path = lake / file.name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * file.size)
    at = path.stat().st_mtime - age_days * 86_400
    os.utime(path, (at, at))
    return path


def test_a_lake_that_is_not_there_is_told(lake: Path) -> None:
    with pytest.raises(LakeError, match="there is no lake"):
        Lake(lake).snapshot()
    assert not lake.exists()


def test_a_lake_is_made_once_and_found_again(lake: Path) -> None:
    first = Lake(lake).opened(identity=7, now=1)
    again = Lake(lake).opened(identity=7, now=2)
    assert first == again
    assert first.version == 1 and first.files == {}


def test_a_lake_of_another_database_is_refused(lake: Path) -> None:
    made(lake)
    with pytest.raises(LakeMismatch, match="another database"):
        Lake(lake).opened(identity=8, now=2)


def test_files_come_and_go_by_versions(lake: Path) -> None:
    found = made(lake)
    assert found.publish(2, "archived", [A, B], segment=segment(1))
    assert found.publish(3, "compacted", [C], remove=(A.name, B.name))
    now = Lake(lake).snapshot()
    assert list(now.files) == [C.name]
    assert now.version == 3
    assert now.last_segment("history") == segment(1)
    assert now.last_segment("audit") is None


def test_a_segment_is_published_once(lake: Path) -> None:
    found = made(lake)
    assert found.publish(2, "archived", [A], segment=segment(1))
    assert not found.publish(3, "archived", [B], segment=segment(1))
    assert list(found.snapshot().files) == [A.name]


def test_files_are_replaced_once(lake: Path) -> None:
    found = made(lake)
    found.publish(2, "archived", [A], segment=segment(1))
    assert found.publish(3, "compacted", [B], remove=(A.name,))
    assert not found.publish(4, "compacted", [C], remove=(A.name,))


def test_writers_at_the_same_moment_all_get_their_version(lake: Path) -> None:
    made(lake)
    start = threading.Barrier(8)

    def write(number: int) -> None:
        start.wait(10)
        assert Lake(lake).publish(number, "archived", [], segment=segment(number))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    found = Lake(lake).snapshot()
    assert found.version == 9
    assert sorted(number for _, number in found.segments) == list(range(1, 9))


def test_a_writer_that_is_always_too_late_gives_up(lake: Path) -> None:
    made(lake)
    manifest = Manifest(Folder(lake))

    def too_late(before: Snapshot | None) -> Version:
        assert before is not None
        return Version(version=before.version, lake=before.lake, identity=7, at=1, action="archived")

    with pytest.raises(LakeBusy, match="try again"):
        manifest.append(too_late)


def test_a_version_is_never_written_twice_and_leaves_no_draft(lake: Path) -> None:
    storage = Folder(lake)
    assert storage.put_new("a/b.json", b"first")
    assert not storage.put_new("a/b.json", b"second")
    assert storage.read("a/b.json") == b"first"
    assert storage.names("a") == ["b.json"]


def test_a_missing_version_is_told(lake: Path) -> None:
    found = made(lake)
    found.publish(2, "archived", [A], segment=segment(1))
    found.publish(3, "archived", [B], segment=segment(2))
    (lake / FOLDER / f"{2:020d}.json").unlink()
    with pytest.raises(LakeError, match=r"version 2 .* is missing"):
        found.snapshot()


@pytest.mark.parametrize("damage", [b"", b"{}", b"not json", b"\xff"])
def test_a_damaged_version_is_told(lake: Path, damage: bytes) -> None:
    made(lake)
    (lake / FOLDER / f"{1:020d}.json").write_bytes(damage)
    with pytest.raises(LakeError, match="backup"):
        Lake(lake).snapshot()


def test_a_lake_of_a_newer_release_is_refused(lake: Path) -> None:
    made(lake)
    path = lake / FOLDER / f"{1:020d}.json"
    path.write_bytes(msgspec.json.encode(msgspec.json.decode(path.read_bytes()) | {"format": 2}))
    with pytest.raises(LakeError, match="newer rowq"):
        Lake(lake).snapshot()


@pytest.mark.parametrize("path", ["s3://bucket/lake", "hdfs://host/lake", "", "  "])
def test_a_place_that_is_no_folder_is_refused(path: str) -> None:
    with pytest.raises(InvalidArgument):
        open_storage(path)


def test_a_file_url_is_a_folder(tmp_path: Path) -> None:
    assert open_storage(f"file://{tmp_path}/my%20lake").root == f"{tmp_path}/my lake"


def test_files_that_are_missing_or_cut_are_found(lake: Path) -> None:
    found = made(lake)
    put(lake, A)
    found.publish(2, "archived", [A], segment=segment(1))
    found.check_files(found.snapshot(), "history")
    (lake / A.name).write_bytes(b"x")
    with pytest.raises(LakeError, match=A.name):
        found.check_files(found.snapshot(), "history")


def test_a_vacuum_removes_what_is_old_and_does_not_count(lake: Path) -> None:
    found = made(lake)
    live, replaced, left = put(lake, A, 30), put(lake, B, 30), put(lake, C, 3)
    checksum = live.with_name(f".{live.name}.crc")
    checksum.write_bytes(b"crc")
    os.utime(checksum, (1, 1))
    found.publish(2, "archived", [A, B], segment=segment(1))
    found.publish(3, "compacted", [], remove=(B.name,))
    told = vacuum(lake, dry_run=True)
    assert told.names == [B.name] and told.bytes == 100
    assert replaced.exists()
    assert vacuum(lake).files == 1
    assert live.exists() and checksum.exists() and left.exists() and not replaced.exists()
    assert not replaced.parent.exists()
    assert vacuum(lake, older_than_ms=86_400_000).names == [C.name]
    assert vacuum(lake, older_than_ms=0).files == 0
    assert found.snapshot().version == 3


def test_a_vacuum_of_no_lake_removes_nothing(tmp_path: Path) -> None:
    precious = put(tmp_path, A, 30)
    with pytest.raises(LakeError, match="there is no lake"):
        vacuum(tmp_path)
    assert precious.exists()
