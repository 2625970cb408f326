"""What cannot be copied is refused before anything is touched, and the text says what to do."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import rowq
from tests.support.life import drain
from tests.transfer.journey import Journey, copy


def test_a_database_cannot_be_copied_into_itself(some_journey: Journey) -> None:
    some_journey.source.send("q", 1)
    with pytest.raises(rowq.InvalidArgument, match="the same database"):
        copy(some_journey.source_url, some_journey.source_url)
    assert not some_journey.source.stats("q").paused


def test_nor_into_a_copy_of_its_file(short_journey: Journey, tmp_path: Path) -> None:
    short_journey.source.send("q", 1)
    short_journey.source.close()
    twin = tmp_path / "twin.db"
    shutil.copy(short_journey.source_url.removeprefix("sqlite:///"), twin)
    with pytest.raises(rowq.InvalidArgument, match="copies of one file"):
        copy(short_journey.source_url, f"sqlite:///{twin}")


def test_a_queue_with_messages_of_its_own_is_left_alone(some_journey: Journey) -> None:
    for queue in ("p", "q"):
        some_journey.source.send(queue, "copied")
    some_journey.target.send("q", "own")
    with pytest.raises(rowq.InvalidArgument, match=r"'q' holds 1 messages at the target .* leave it out"):
        some_journey.copy()
    assert [stats.queue for stats in some_journey.target.queues()] == ["q"]
    assert not any(stats.paused for stats in (*some_journey.source.queues(), *some_journey.target.queues()))
    some_journey.copy(["p"])
    assert drain(some_journey.target, "p") == ["copied"]
    some_journey.target.purge("q")
    some_journey.copy()
    assert drain(some_journey.target) == ["copied"]


@pytest.mark.parametrize("scheme", ["http", "https", "HTTP"])
@pytest.mark.parametrize("side", ["source", "target"])
def test_a_server_is_no_database(short_journey: Journey, scheme: str, side: str) -> None:
    urls = {"source": short_journey.source_url, "target": short_journey.target_url, side: f"{scheme}://name:secret@localhost:1"}
    with pytest.raises(rowq.InvalidArgument, match="give the URL of its database") as refused:
        copy(urls["source"], urls["target"])
    assert "secret" not in str(refused.value)


def test_a_queue_that_is_not_there_is_told_before_anything_is_made(short_journey: Journey) -> None:
    short_journey.source.send("q", 1)
    for name, error in (("nothing", rowq.QueueNotFound), ("q.dlq", rowq.NameReserved), ("a b", rowq.InvalidArgument)):
        with pytest.raises(error):
            short_journey.copy(["q", name])
    assert not Path(short_journey.target_url.removeprefix("sqlite:///")).exists()


def test_a_source_without_queues_is_told(short_journey: Journey) -> None:
    with pytest.raises(rowq.QueueNotFound, match="no queue at the source"):
        short_journey.copy()


def test_a_source_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(rowq.StoreUnavailable, match="is the path right"):
        copy(f"sqlite:///{tmp_path / 'a.db'}", f"sqlite:///{tmp_path / 'b.db'}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("version", "told"), [(1, "run `rowq migrate`"), (99, "upgrade rowq")])
def test_a_source_of_another_version_is_refused(short_journey: Journey, version: int, told: str) -> None:
    short_journey.source.send("q", 1)
    set_version(short_journey.source_url, version)
    with pytest.raises(rowq.SchemaMismatch, match=told):
        short_journey.copy()
    assert not Path(short_journey.target_url.removeprefix("sqlite:///")).exists()


def test_a_target_of_a_newer_version_is_refused(short_journey: Journey) -> None:
    short_journey.source.send("q", 1)
    short_journey.target.send("other", 1)
    set_version(short_journey.target_url, 99)
    with pytest.raises(rowq.SchemaMismatch, match="upgrade rowq"):
        short_journey.copy()
    assert not short_journey.source.stats("q").paused


def set_version(url: str, version: int) -> None:
    with closing(sqlite3.connect(urlsplit(url).path[1:])) as connection:
        connection.execute("UPDATE rowq_migrations SET version = ?", (version,))
        connection.commit()
