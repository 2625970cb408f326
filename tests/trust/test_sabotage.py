"""The list of deliberate defects is up to date, and the runner tells a caught defect from one that was missed or proves nothing."""

from __future__ import annotations

import ast
import difflib
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from rowq.model.cron import read_cron
from rowq.store import query
from rowq.store.mariadb.statement import MariadbQueries
from rowq.store.postgresql.session import PostgresqlQueries
from rowq.store.query import Queries
from rowq.store.sqlite.session import SqliteQueries
from tests.support.servers import Unavailable
from trust.sabotage.defect import Defect, NotThere
from trust.sabotage.defects import DEFECTS
from trust.sabotage.runner import judge, try_all, unsound
from trust.sabotage.scratch import ROOT, SOURCE, Scratch
from trust.sabotage.trial import Trial
from trust.sabotage.witness import Told, is_proof

DIALECTS: tuple[Callable[[], Queries], ...] = (SqliteQueries, lambda: PostgresqlQueries("public"), MariadbQueries)
RETRY = "tests/model/test_retry.py::test_linear_grows_by_its_step_up_to_its_cap"

every_defect = pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)


def a_defect(name: str, old: str = "a", new: str = "b", file: str = "rowq/model/retry.py", tests: tuple[str, ...] = (RETRY,)) -> Defect:
    return Defect(name=name, breaks="Something.", file=file, old=old, new=new, tests=tests)


def read_queries() -> list[str]:
    """Every query of every database."""
    return [made[name] for make in DIALECTS for made in [make()] for name in made.names()]


@cache
def sound_queries() -> list[str]:
    return read_queries()


@every_defect
def test_a_defect_changes_one_place_and_little_there(defect: Defect) -> None:
    before = (SOURCE / defect.file).read_text(encoding="utf-8")
    changed = [line for line in difflib.ndiff(before.splitlines(), defect.text(SOURCE).splitlines()) if line.startswith(("- ", "+ "))]
    assert 1 <= len(changed) <= 8, f"{defect.name} is more than a slip: {changed}"


def test_every_test_that_a_defect_names_exists() -> None:
    """With its parameters: pytest runs none of the tests that it is given when it does not find one of them."""
    named = sorted({test for defect in DEFECTS for test in defect.tests})
    command = [sys.executable, "-m", "pytest", "--collect-only", "--quiet", "-m", "", "-p", "no:cacheprovider", *named]
    collected = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert collected.returncode == 0, collected.stdout[-2_000:] + collected.stderr


@every_defect
def test_a_damaged_file_can_be_read_and_says_something_else(defect: Defect, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query that each database overrides would be damaged without any harm."""
    text = defect.text(SOURCE)
    if defect.file.endswith(".py"):
        before = (SOURCE / defect.file).read_text(encoding="utf-8")
        assert ast.dump(ast.parse(text)) != ast.dump(ast.parse(before))
        return
    if "/peq/" in defect.file:
        return  # no queries of ours: procedures, which PostgreSQL reads when a schema is made
    whole, read = sound_queries(), query.read_sql
    name = Path(defect.file).name
    monkeypatch.setattr(query, "read_sql", lambda file, **options: text if file == name else read(file, **options))
    damaged = read_queries()
    assert len(damaged) == len(whole) and damaged != whole


def test_a_damaged_file_names_nothing_that_is_not_there(tmp_path: Path) -> None:
    """A process that a test starts would end by it, and the test would seem to have noticed."""
    for defect in DEFECTS:
        if defect.file.endswith(".py"):
            (tmp_path / f"{defect.name}.py").write_text(defect.text(SOURCE), encoding="utf-8")
    assert undefined_in(tmp_path) == ""
    (tmp_path / "slip.py").write_text("def double(number: int) -> int:\n    return 2 * nubmer\n", encoding="utf-8")
    assert "nubmer" in undefined_in(tmp_path)


def undefined_in(folder: Path) -> str:
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--quiet", "--select", "F821,F823", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout


@every_defect
def test_the_tests_of_a_defect_are_there(defect: Defect) -> None:
    assert defect.tests
    for test in defect.tests:
        file, _, name = test.partition("::")
        assert (ROOT / file).is_file(), f"{defect.name} names {file}: where has it gone?"
        assert not name or name.rpartition("::")[2].partition("[")[0] in names_in(file), (
            f"{defect.name} names {test}: what is it called now?"
        )


@cache
def names_in(file: str) -> set[str]:
    """Functions and classes."""
    return {node.name for node in ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8"))) if hasattr(node, "name")}


def test_every_defect_has_a_name_of_its_own_and_a_sentence() -> None:
    assert len({defect.name for defect in DEFECTS}) == len(DEFECTS) >= 30
    assert [defect.name for defect in DEFECTS if not defect.breaks.endswith(".") or "\n" in defect.breaks] == []


def test_the_defects_reach_all_databases() -> None:
    names = " ".join(defect.file for defect in DEFECTS)
    assert all(word in names for word in ("sqlite", "postgresql", "mariadb", ".sql"))


def test_text_that_is_not_there_once_is_told() -> None:
    with pytest.raises(NotThere, match="0 times"):
        a_defect("gone", "this is nowhere").text(SOURCE)
    with pytest.raises(NotThere, match="not once"):
        a_defect("too often", "return").text(SOURCE)


@pytest.mark.prove("five defects tried, 30 s; the tests of judge, unsound and is_proof stand for it")
@pytest.mark.timeout(300)
def test_the_runner_tells_what_was_caught_from_what_was_missed_or_proves_nothing() -> None:
    known = {defect.name: defect for defect in DEFECTS}
    told: list[str] = []
    found = try_all(
        [
            known["weekdays-from-monday"],
            a_defect("harmless", "How long retry number", "How long the retry number"),
            a_defect("nonsense", "return min(step * retry, cap)", "return min(step * retri, cap)"),
            a_defect("broken", "def delay_ms(", "def delay_ms)("),
            a_defect("gone", "this is nowhere"),
        ],
        tell=lambda finding: told.append("" if finding is None else finding.name),
    )
    assert [finding.status for finding in found] == ["caught", "missed", "unproven", "unproven", "moved"]
    assert found[0].test.startswith("tests/model/test_cron.py::")
    assert "NameError" in found[2].why
    assert sorted(told) == sorted(["", *(finding.name for finding in found)])


def test_every_process_that_a_test_starts_imports_the_copy(tmp_path: Path) -> None:
    """Also one whose PYTHONPATH somebody sets, and whatever that starts; nothing of the project's own source is within reach."""
    scratch = Scratch.make(tmp_path / "copy")
    (scratch.source / "rowq" / "clock.py").unlink()
    asked = "import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-m', 'rowq.cli.main', 'serve', '--help']).returncode)"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([scratch.python, "-c", asked], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert "No module named 'rowq.clock'" in done.stderr and str(SOURCE) not in done.stderr


def a_trial(*told: Told, has_run: bool = True) -> Trial:
    return Trial(list(told), 1.0, "the last words", has_run)


def test_what_fails_without_the_defect_proves_nothing() -> None:
    tried = a_defect("x", tests=("tests/a.py::test_one", "tests/b.py"))
    passed = Told("tests/a.py::test_one[sqlite]", "passed")
    assert unsound(tried, a_trial(passed, Told("tests/a.py::test_one_more", "failed"))) == ""
    assert "fails without the defect: boom" in unsound(tried, a_trial(passed, Told("tests/b.py::test_two", "failed", "boom")))
    assert "no MariaDB" in unsound(tried, a_trial(Told("tests/b.py::test_two", "skipped", "no MariaDB")))
    assert "the last words" in unsound(tried, a_trial(has_run=False))


def test_a_run_that_did_not_come_to_its_end_is_no_miss_and_a_proof_counts_all_the_same() -> None:
    tried, proof = a_defect("x"), Told("tests/a.py::test_one", "failed", "it came twice", is_proof=True)
    assert judge(tried, a_trial(has_run=False)).status == "unproven"
    assert judge(tried, a_trial(Told("tests/a.py::test_one", "failed", "NameError: x"))).status == "unproven"
    assert judge(tried, a_trial(proof, has_run=False)).status == "caught"
    assert judge(tried, a_trial(Told("tests/a.py::test_one", "passed"))).status == "missed"


def test_only_a_broken_promise_is_a_proof() -> None:
    hang = pytest.fail.Exception("Timeout (>60.0s) from pytest-timeout.")
    assert is_proof(AssertionError("it came twice"), hangs=False)
    assert not is_proof(NameError("retri"), hangs=False)
    assert not is_proof(ImportError("rowq.clock"), hangs=False)
    assert not is_proof(Unavailable("no MariaDB"), hangs=False)
    assert not is_proof(hang, hangs=False)
    assert is_proof(hang, hangs=True)
    with pytest.raises(AttributeError) as ours:
        read_cron(1)  # type: ignore[arg-type]
    with pytest.raises(AttributeError) as of_the_test:
        _ = None.payload  # type: ignore[attr-defined]
    assert not is_proof(ours.value, hangs=False)
    assert is_proof(of_the_test.value, hangs=False)
    wrapped = RuntimeError("the database refused")
    wrapped.__cause__ = ValueError('syntax error at or near "FRM"')
    assert not is_proof(wrapped, hangs=False)
    wrapped.__cause__, wrapped.__context__ = None, ValueError("first")
    wrapped.__context__.__context__ = wrapped
    assert is_proof(wrapped, hangs=False)
