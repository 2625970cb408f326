"""Public names of the release before: each works as its new name does, and says that name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rowq
from rowq.compat.gq import Client
from rowq.connect import open_engine
from rowq.errors import InvalidArgument
from rowq.server.compat.forq.api import Options
from rowq.server.config import Config, load
from rowq.spark.ledger import open_ledger
from tests.cli.driver import Run
from tests.server.support import serving

NOTHING = rowq.MaintenanceResult(due=0, lease_expired=0, expired=0, retired=0)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'jobs.db'}"


def has_thread(broker: rowq.Broker) -> bool:
    return broker._engine.maintenance._thread is not None


async def sweep_async(url: str) -> tuple[Any, Any]:
    async with rowq.connect_async(url, maintenance=False) as broker:
        return await broker.sweep(), await broker.run_sweep("depth")


async def connect_async(url: str) -> bool:
    async with rowq.connect_async(url, upkeep=False) as broker:  # type: ignore[call-arg]
        return broker._engine().maintenance._thread is not None


def connect(url: str) -> bool:
    with rowq.connect(url, upkeep=False) as broker:  # type: ignore[call-arg]
        return has_thread(broker)


def connect_client(url: str) -> bool:
    with Client(url, queue="q", upkeep=False) as client:  # type: ignore[call-arg]
        return has_thread(client.broker)


def connect_ledger(url: str) -> bool:
    with open_ledger(url, upkeep=False) as ledger:
        return ledger._engine.maintenance._thread is not None


@pytest.mark.parametrize("connects", [connect, lambda url: asyncio.run(connect_async(url)), connect_client, connect_ledger])
def test_upkeep_is_maintenance(url: str, connects: Callable[[str], bool]) -> None:
    with pytest.warns(DeprecationWarning, match="^upkeep= is now maintenance=; the old name works until the next release$") as warned:
        assert connects(url) is False
    assert [Path(warning.filename) for warning in warned] == [Path(__file__)], "once, for the line of the caller"


def test_a_client_of_a_server_takes_upkeep_too() -> None:
    with pytest.warns(DeprecationWarning, match="upkeep="), rowq.connect("http://localhost", upkeep=False):  # type: ignore[call-arg]
        pass


def test_a_coroutine_of_an_old_name_warns_where_it_is_made(url: str) -> None:
    """In a task the caller's line is no longer on the stack."""

    async def sweep() -> rowq.MaintenanceResult:
        async with rowq.connect_async(url, maintenance=False) as broker:
            return await asyncio.wait_for(broker.sweep(), 60)

    with pytest.warns(DeprecationWarning, match="maintain") as warned:
        assert asyncio.run(sweep()) == NOTHING
    assert [Path(warning.filename) for warning in warned] == [Path(__file__)]


def test_both_names_at_once_are_refused(url: str) -> None:
    with pytest.raises(TypeError, match="upkeep= is the old name of maintenance="):
        rowq.connect(url, upkeep=False, maintenance=False)  # type: ignore[call-arg]


def test_an_option_that_never_was_is_refused_as_before(url: str) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'sweeping'"):
        open_engine(url, sweeping=False)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("old", "new", "call", "answer"),
    [
        ("sweep", "maintain", lambda broker: broker.sweep(), NOTHING),
        ("run_sweep", "run_maintenance", lambda broker: broker.run_sweep("depth"), 0),
        ("run_sweep", "run_maintenance", lambda broker: broker.run_sweep(name="depth"), 0),
    ],
)
@pytest.mark.parametrize("where", ["here", "on a server"])
def test_a_verb_is_found_under_its_old_name(
    tmp_path: Path, url: str, where: str, old: str, new: str, call: Callable[[rowq.Broker], Any], answer: Any
) -> None:
    def check(url: str) -> None:
        with (
            rowq.connect(url, maintenance=False) as broker,
            pytest.warns(DeprecationWarning, match=rf"^broker\.{old}\(\) is now broker\.{new}\(\); ") as warned,
        ):
            assert call(broker) == answer
        assert Path(warned[0].filename) == Path(__file__)

    if where == "here":
        return check(url)
    with serving(tmp_path) as server:
        check(server.url)


def test_the_verbs_of_event_loops_are_found_under_their_old_names(url: str) -> None:
    with pytest.warns(DeprecationWarning, match=r"broker\.(run_)?sweep\(\) is now") as warned:
        assert asyncio.run(sweep_async(url)) == (NOTHING, 0)
    assert [str(warning.message).partition(" ")[0] for warning in warned] == ["broker.sweep()", "broker.run_sweep()"]
    assert {Path(warning.filename) for warning in warned} == {Path(__file__)}


def test_a_class_is_found_under_its_old_name() -> None:
    with pytest.warns(DeprecationWarning, match=r"^rowq\.Swept is now rowq\.MaintenanceResult; "):
        from rowq import Swept
    assert Swept is rowq.MaintenanceResult
    with pytest.raises(AttributeError, match="no attribute 'Swipt'"):
        rowq.Swipt  # noqa: B018


@pytest.mark.parametrize(
    ("old", "new"),
    [(["sweep"], "maintain"), (["sweep", "depth"], "maintain"), (["sweeps"], "maintenance-tasks")],
    ids=str,
)
def test_a_command_works_under_its_old_name(url: str, monkeypatch: pytest.MonkeyPatch, old: list[str], new: str) -> None:
    monkeypatch.setenv("ROWQ_URL", url)
    run = Run(monkeypatch)
    run("migrate")
    before, now = run(*old, "--json"), run(new, *old[1:], "--json")
    assert before.exit_code == now.exit_code == 0 and before.out == now.out and now.err == ""
    assert before.err == f"rowq {old[0]} is now rowq {new}; the old name works until the next release\n"
    assert f" {old[0]} " not in run("--help").out


def test_the_old_option_of_the_server_is_not_in_its_help(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told = Run(monkeypatch)("serve", "--help").out
    assert "--compat" in told and "--doors" not in told


def in_flags(folder: Path) -> Config:
    return load({"doors": "forq"}, {}, folder=folder)


def in_variables(folder: Path) -> Config:
    return load({}, {"ROWQ_DOORS": "forq"}, folder=folder)


def in_file(folder: Path) -> Config:
    (folder / "rowq.toml").write_text('[server]\ndoors = "forq"\n', encoding="utf-8")
    return load({}, {}, folder=folder)


@pytest.mark.parametrize(
    ("said", "remark"),
    [
        (in_flags, "--doors is now --compat; the old name works until the next release"),
        (in_variables, "ROWQ_DOORS is now ROWQ_COMPAT; the old name works until the next release"),
        (in_file, "server.doors in FILE is now server.compat; the old name works until the next release"),
    ],
)
def test_doors_are_compat_in_the_configuration(tmp_path: Path, said: Callable[[Path], Config], remark: str) -> None:
    config = said(tmp_path)
    assert config.compat == "forq"
    assert config.remarks == (remark.replace("FILE", str(tmp_path / "rowq.toml")),)


def test_a_table_of_options_is_read_under_its_old_name(tmp_path: Path) -> None:
    (tmp_path / "rowq.toml").write_text("[doors.forq]\nqueue_ttl_hours = 2\n[doors.keyval]\n", encoding="utf-8")
    config = load({}, {}, folder=tmp_path)
    assert config.compat_options["forq"] == Options(queue_ttl_hours=2)
    assert config.remarks == (f"[doors.…] in {tmp_path / 'rowq.toml'} is now [compat.…]; the old name works until the next release",)


@pytest.mark.parametrize("text", ["[doors.forq]\n[compat.keyval]\n", '[server]\ndoors = "none"\ncompat = "none"\n'])
def test_a_file_with_both_names_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "rowq.toml").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidArgument, match=r"doors.* is the old name of .*compat"):
        load({}, {}, folder=tmp_path)


def test_a_new_name_of_a_stronger_source_beats_an_old_one(tmp_path: Path) -> None:
    in_file(tmp_path)
    assert load({}, {"ROWQ_COMPAT": "keyval"}, folder=tmp_path).compat == "keyval"
