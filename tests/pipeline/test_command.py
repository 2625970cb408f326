"""`rowq pipeline …`: archive, report, replay, compact and vacuum from the shell."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

import rowq
from rowq import ManualClock
from rowq.cli import pipeline as commands
from rowq.cli.pipeline import spark_session
from tests.cli.driver import Run
from tests.pipeline.past import let_die, work_off
from tests.support.jvm import OPTIONS


@pytest.fixture
def run(url: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Without Java: what needs it fails."""
    monkeypatch.setenv("ROWQ_URL", url)
    monkeypatch.setenv("NO_COLOR", "1")

    @contextmanager
    def nothing(master: str) -> Iterator[SparkSession]:
        raise AssertionError("Spark is not needed here")
        yield

    monkeypatch.setattr(commands, "spark_session", nothing)
    return Run(monkeypatch)


@pytest.fixture
def run_with_spark(run: Run, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Run:
    """In the session of all tests, which a command would end with itself."""

    @contextmanager
    def shared(master: str) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr(commands, "spark_session", shared)
    return run


def test_the_way_of_messages_through_all_commands(
    run_with_spark: Run, url: str, broker: rowq.Broker, clock: ManualClock, lake: Path, tmp_path: Path
) -> None:
    run = run_with_spark
    with rowq.connect(url, maintenance=False, clock=clock) as of_one_day:  # no midnight comes in between
        work_off(of_one_day, 6)
    assert run("pipeline", "archive", str(lake), "--dry-run").out == "25 lines to archive; nothing was changed\n"
    assert not lake.exists()
    archived = run("--json", "pipeline", "archive", str(lake), "--purge", "--segment-lines", "10").json
    assert archived == {"archived": {"history": 6, "audit": 19}, "purged": {"history": 6, "audit": 19}}
    assert run("pipeline", "archive", str(lake)).out == "0 lines archived\n"
    assert run("pipeline", "compact", str(lake), "--dry-run").out == "2 small files to merge; nothing was changed\n"
    assert run("pipeline", "compact", str(lake)).out == "2 files became 1\n"
    assert run("--json", "pipeline", "compact", str(lake)).json == {"days": 0, "before": 0, "after": 0}
    assert run("--json", "pipeline", "vacuum", str(lake)).json == {"files": 0, "bytes": 0, "names": []}
    assert run("--json", "pipeline", "vacuum", str(lake), "--older-than", "0s", "--dry-run").json["files"] == 2
    assert run("pipeline", "vacuum", str(lake), "--older-than", "0s").out.startswith("2 files, ")
    page, figures = tmp_path / "report.html", tmp_path / "figures"
    assert run("pipeline", "report", str(page), "--lake", str(lake), "--parquet", str(figures)).out == f"written to {page}\n"
    assert "orders" in page.read_text(encoding="utf-8")
    assert (figures / "throughput").is_dir()
    again = run("--json", "pipeline", "replay", "again", "orders", "--lake", str(lake), "--to", "copies").json
    assert again == {"matching": 6, "replayed": 6, "before": 0, "without_body": 0}
    assert broker.stats("copies").ready == 6


def test_dead_letters_are_replayed_without_spark(run: Run, broker: rowq.Broker) -> None:
    let_die(broker, ["timeout 1", "timeout 2", "no"])
    arguments = ("pipeline", "replay", "timeouts", "orders", "--error", "timeout [0-9]")
    assert run(*arguments, "--dry-run").out == "2 messages to replay; nothing was changed\n"
    assert run(*arguments).out == "2 messages replayed\n"
    assert run(*arguments).out == "0 messages replayed\n"
    assert broker.stats("orders").ready == 2


@pytest.mark.parametrize(
    ("arguments", "code", "exit_code"),
    [
        (("archive", "s3://bucket/lake"), "invalid_argument", 2),
        (("archive", "{lake}", "--segment-lines", "0"), "invalid_argument", 2),
        (("archive", "{lake}", "--url", "http://localhost:1"), "invalid_argument", 2),
        (("archive", "{lake}", "--url", "sqlite:///{lake}/none.db"), "store_unavailable", 4),
        (("report", "{lake}.html", "--only-lake"), "invalid_argument", 2),
        (("report", "{lake}.html", "--url", "http://localhost:1"), "invalid_argument", 2),
        (("report", "{lake}/page.html"), "invalid_argument", 2),
        (("report", "{lake}.html", "--lake", "{lake}"), "lake_error", 1),
        (("replay", "a name", "orders"), "invalid_argument", 2),
        (("replay", "name", "orders", "--rate", "0"), "invalid_argument", 2),
        (("replay", "name", "orders", "--lake", "{lake}"), "lake_error", 1),
        (("replay", "name", "orders", "--error", "("), "invalid_argument", 2),
        (("replay", "name", "orders", "--to", "others"), "invalid_argument", 2),
        (("compact", "{lake}"), "lake_error", 1),
        (("vacuum", "{lake}"), "lake_error", 1),
        (("vacuum", "{lake}", "--older-than", "soon"), "usage", 2),
    ],
)
def test_what_cannot_be_done_is_told_in_a_line(
    run: Run, broker: rowq.Broker, lake: Path, arguments: tuple[str, ...], code: str, exit_code: int
) -> None:
    result = run("--json", "pipeline", *(word.replace("{lake}", str(lake)) for word in arguments))
    assert (result.error["code"], result.exit_code) == (code, exit_code)
    assert not lake.exists()


def test_without_the_extra_the_command_says_what_to_install(run: Run, lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("rowq.spark.session"), "find_spec", lambda package: None)
    told = run("pipeline", "archive", str(lake))
    assert told.exit_code == 2
    assert "pip install 'rowq[spark]'" in told.err


@pytest.mark.timeout(400)
@pytest.mark.usefixtures("quick_drivers")
@pytest.mark.prove("a JVM of its own, 40 s; the commands in the session of all tests stand for it")
@pytest.mark.parametrize("left_out", [(), (OPTIONS,)])
def test_a_command_starts_spark_by_itself_and_keeps_quiet(url: str, broker: rowq.Broker, lake: Path, left_out: tuple[str, ...]) -> None:
    work_off(broker, 3)
    environment = {name: value for name, value in os.environ.items() if name not in left_out} | {"ROWQ_URL": url}
    command = [sys.executable, "-m", "rowq.cli.main", "--json", "pipeline", "archive", str(lake), "--master", "local[1]"]
    done = subprocess.run(command, env=environment, capture_output=True, timeout=280, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert msgspec.json.decode(done.stdout)["archived"] == {"history": 3, "audit": 10}


def test_a_failure_of_spark_is_told_in_a_line(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    from rowq.cli.output import Failure

    monkeypatch.setattr(type(spark), "stop", lambda self: None)
    with pytest.raises(Failure) as caught, spark_session("local[2]") as own:
        own.sql("SELECT raise_error('the disk is full')").collect()
    assert caught.value.code == "spark_failed" and "the disk is full" in caught.value.sentence
    assert "\n" not in caught.value.sentence


def test_whoever_waits_for_spark_at_a_terminal_is_told_what_for(
    run: Run, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def session(*arguments: object, **conf: object) -> None:
        raise rowq.JavaNotFound("none was found")

    monkeypatch.setattr(commands, "spark_session", spark_session)
    monkeypatch.setattr(import_module("rowq.spark"), "session", session)
    told = run("pipeline", "report", str(tmp_path / "page.html"), terminal=True)
    assert told.err.startswith("starting Spark, which takes a few seconds\n")
    assert told.exit_code == 1
