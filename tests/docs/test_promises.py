"""The page of promises: no cell without a word that means something, no word without a test, and no page that says otherwise."""

from __future__ import annotations

import pytest

from tests.docs.named_tests import missing, named, named_in
from tests.docs.page import Page, page
from tests.docs.promises import CLASSES, DESTROYED, FAULTS, NOT_HERE, PAGE, promises

PROMISES = page(PAGE)
SETTINGS = {(promise.kind, promise.setting) for fault in FAULTS for promise in promises(fault)}


@pytest.mark.parametrize("fault", FAULTS)
def test_every_cell_is_filled(fault: str) -> None:
    found = promises(fault)
    assert all(dict(promise.fates).keys() == CLASSES.keys() for promise in found), "a call of which nothing is said"
    here = {(promise.kind, promise.setting) for promise in found}
    assert here == {(kind, setting) for kind, setting in SETTINGS if fault != "database killed" or kind != "sqlite"}


def test_every_setting_that_matters_is_there() -> None:
    durabilities = {f"durability={level}" for level in ("send", "full", "normal")}
    assert {setting for kind, setting in SETTINGS if kind == "sqlite"} == durabilities
    assert {setting for kind, setting in SETTINGS if kind == "postgresql"} == durabilities | {"synchronous_commit=off", "fsync=off"}
    assert {setting for kind, setting in SETTINGS if kind == "mariadb"} == {f"innodb_flush_log_at_trx_commit={n}" for n in range(3)}


@pytest.mark.parametrize("fault", FAULTS)
def test_every_cell_is_held_by_a_test_of_its_own(fault: str) -> None:
    (row,) = (row for row in PROMISES.table("column") if row[0] == fault)
    tests = named_in(row[2])
    for promise in promises(fault):
        assert [test for test in tests if not missing([f"{test}[{promise}]"])], f"no test tries {promise}"


def test_every_other_fault_names_its_tests() -> None:
    rows = PROMISES.table("fault")
    assert rows
    assert [row for row in rows if not named_in(row[3]) or not all(row)] == []


def test_every_test_that_is_named_is_there() -> None:
    assert missing(named(PROMISES)) == []


def test_the_readme_shows_what_the_page_says_of_sqlite() -> None:
    rows = [[row[1], row[2], row[3], row[6]] for row in PROMISES.table("database") if row[0] == "SQLite"]
    assert page("README.md").table("what is set") == rows


def made_up(*rows: str) -> Page:
    head = f"| database | what is set | call | {' | '.join(FAULTS)} |"
    return Page("made up", "\n".join([head, "|---|---|---|---|---|---|---|", *rows]) + "\n")


def test_what_a_row_says_is_read() -> None:
    (found,) = promises(
        "power loss",
        made_up(
            "| MariaDB, MySQL | `a=1` (default) | `send` | kept | kept | kept | kept |",
            f"| MariaDB, MySQL | `a=1` (default) | decisions, `ack` | kept | kept | {NOT_HERE} | {DESTROYED} |",
        ),
    )
    assert (found.kept, found.destroys, str(found)) == ({"send"}, True, "mariadb-a=1")


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ("| SQLite | `a=1` | everything | kept | kept | kept | probably kept |", "is no fate"),
        ("| SQLite | `a=1` | everything | kept | kept | kept | |", "is no fate"),
        ("| SQLite | as usual | everything | kept | kept | kept | kept |", "names no setting"),
        (
            "| SQLite | `a=1` | everything | kept | kept | kept | kept |\n| SQLite | `a=1` | `send` | kept | kept | kept | kept |",
            "says twice",
        ),
    ],
)
def test_a_row_that_promises_nothing_is_refused(row: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        promises("power loss", made_up(row))


def test_a_test_that_is_not_there_is_missed() -> None:
    here = "tests/docs/test_promises.py"
    there = [here, f"{here}::test_every_cell_is_filled", f"{here}::test_every_cell_is_filled[power loss]"]
    assert missing(there) == []
    gone = ["tests/docs/test_gone.py", f"{here}::test_gone", f"{here}::made_up", f"{here}::test_every_cell_is_filled[gone]"]
    assert missing(gone) == gone
    assert named_in(" ".join(f"`{name}`" for name in [*gone, "rowq serve"])) == gone
