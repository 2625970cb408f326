"""Files that cannot be what they should be: each gives a typed error that says what to do, and stays as it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import rowq
from rowq import Broker, InvalidArgument, StoreCorrupt, StoreUnavailable
from tests.store.conftest import Connect


def url(path: Path) -> str:
    return f"sqlite:///{path}"


def test_a_file_that_is_no_database_is_refused(path: Path) -> None:
    text = "Dear diary, " * 1_000
    path.write_text(text)
    with pytest.raises(StoreCorrupt, match="is the path right"):
        rowq.connect(url(path))
    assert path.read_text() == text


def test_an_empty_file_becomes_a_database(path: Path, connect: Connect) -> None:
    path.touch()
    assert connect().send("q", "x")


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="is a folder"):
        rowq.connect(url(tmp_path))


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="does not exist: create it"):
        rowq.connect(url(tmp_path / "nowhere" / "jobs.db"))
    assert not (tmp_path / "nowhere").exists()


def test_looking_does_not_make_a_file(path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="no database"):
        rowq.connect(url(path), migrate=False)
    assert not path.exists()


@pytest.mark.parametrize("bad", ["sqlite://", "sqlite:///", "sqlite:///:memory:", "oracle://localhost/x", "jobs.db", "", 7])
def test_a_url_that_leads_nowhere_is_refused(bad: str) -> None:
    with pytest.raises(InvalidArgument):
        rowq.connect(bad)


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        ("jobs.db", "this is not a URL: use sqlite:///jobs.db"),
        ("ada:s3cret@db/x", "rowq does not know a database for ada://…: use"),
        ("sqlite://jobs.db", "a SQLite path follows three slashes: use"),
    ],
)
def test_what_is_wrong_with_a_url_is_told_and_no_password(bad: str, told: str) -> None:
    with pytest.raises(InvalidArgument, match=re.escape(told)) as refused:
        rowq.connect(bad)
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("bad", ["?durability=maybe", "?timeout=soon", "?timeout=0", "?timeout=-1", "?timeout=nan", "?colour=red"])
def test_a_url_parameter_that_makes_no_sense_is_refused(path: Path, bad: str) -> None:
    with pytest.raises(InvalidArgument):
        rowq.connect(f"sqlite:///{path}{bad}")
    assert not path.exists()


def test_a_path_may_hold_anything_that_a_file_may(tmp_path: Path) -> None:
    path = tmp_path / "søk & 100% 'jobs' #1.db"
    quoted = str(path).replace("%", "%25").replace("#", "%23")
    with rowq.connect(f"sqlite:///{quoted}", maintenance=False) as broker:
        broker.send("q", "x")
    assert path.is_file()


def test_a_damaged_header_is_refused(path: Path) -> None:
    _filled(path)
    with path.open("r+b") as file:
        file.write(b"\0" * 64)
    with pytest.raises(StoreCorrupt):
        rowq.connect(url(path))


def test_a_damaged_table_is_an_error_and_not_an_empty_queue(path: Path) -> None:
    """The pages behind the first are overwritten: nothing may be answered as if all were well."""
    _filled(path)
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * (size - 4096))
    with pytest.raises(StoreCorrupt, match="restore a backup"), rowq.connect(url(path), maintenance=False) as broker:
        broker.receive("q", max=100)


def test_the_doctor_sees_damage(path: Path) -> None:
    _filled(path)
    with path.open("r+b") as file:
        file.seek(path.stat().st_size - 4096 * 3)
        file.write(b"\xa5" * 4096 * 3)
    try:
        with rowq.connect(url(path), maintenance=False) as broker:
            findings = {finding.check: finding for finding in broker.doctor()}
    except StoreCorrupt:
        return
    assert not findings["integrity"].ok
    assert findings["integrity"].advice


def test_a_file_cut_short_is_an_error(path: Path) -> None:
    _filled(path)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)
    with pytest.raises(StoreCorrupt), rowq.connect(url(path), maintenance=False) as broker:
        broker.receive("q", max=1_000)


def _filled(path: Path) -> None:
    broker: Broker
    with rowq.connect(url(path), maintenance=False) as broker:
        broker.send_many("q", ["x" * 500 for _ in range(200)])
