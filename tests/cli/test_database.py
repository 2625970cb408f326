"""doctor, migrate, maintain."""

from __future__ import annotations

import time
from pathlib import Path

from tests.cli.driver import Run


def test_migrate_tells_from_and_to(run: Run) -> None:
    first = run("migrate", "--json").json
    assert first["from"] == 0
    assert first["to"] >= 1
    assert run("migrate", "--json").json == {"from": first["to"], "to": first["to"]}
    assert "already" in run("migrate").out


def test_a_healthy_database_is_exit_code_0(run: Run) -> None:
    run("send", "q", "1")
    findings = run("doctor", "--json")
    assert findings.exit_code == 0, findings.out
    assert findings.lines
    assert all(set(finding) == {"check", "ok", "detail", "advice"} and finding["ok"] for finding in findings.lines)
    assert "ok" in run("doctor").out


def test_the_doctor_finds_a_database_that_is_not_there(run: Run, tmp_path: Path) -> None:
    result = run("doctor", "--json")
    assert result.exit_code == 1
    assert [finding["ok"] for finding in result.lines] == [False]
    assert result.error["code"] == "unhealthy"


def test_the_doctor_finds_damage(run: Run, tmp_path: Path) -> None:
    for n in range(50):
        run("send", "q", f'"{n * 50 * "x"}"')
    path = tmp_path / "queue.db"
    data = bytearray(path.read_bytes())
    for start in range(8192, len(data), 4096):
        data[start : start + 200] = b"\xa5" * 200
    path.write_bytes(bytes(data))
    (tmp_path / "queue.db-wal").unlink(missing_ok=True)
    result = run("doctor")
    assert result.exit_code == 1
    assert "WRONG" in result.out
    assert "Traceback" not in result.err


def test_maintain_takes_up_what_is_due(run: Run) -> None:
    run("send", "q", "1", "--delay", "1ms")
    deadline = time.monotonic() + 60
    while (done := run("maintain", "--json").json)["due"] == 0:
        assert time.monotonic() < deadline
    assert set(done) == {"due", "lease_expired", "expired", "retired"}
    assert "0 due" in run("maintain").out


def test_the_maintenance_tasks_are_listed_and_run_by_name(run: Run) -> None:
    assert run("migrate").exit_code == 0
    listed = run("maintenance-tasks", "--json").lines
    assert [sorted(each) for each in listed] == [["every_ms", "name", "summary"]] * len(listed)
    for each in listed:
        assert run("maintain", each["name"], "--json").json == {"name": each["name"], "count": each["name"] == "optimize"}
        assert each["name"] in run("maintenance-tasks").out
    assert run("maintain", "expired").out == "expired: 0\n"
    assert run("maintain", "nonsense").exit_code == 3
