"""The reference lists all there is, and nothing else."""

from __future__ import annotations

import ast
import inspect
import re
import tomllib
from typing import Any

import pytest
import typer
from msgspec import Struct

import rowq
from rowq import errors, spark
from rowq.cli import output
from rowq.cli.main import app
from rowq.connect import ConnectOptions
from rowq.engine.maintenance import TASKS
from rowq.model.message import BrowseOptions, SendOptions
from rowq.model.queue import SettingsOptions
from rowq.model.retry import Delays
from rowq.server.metrics import COUNTERS
from rowq.spark.ledger import Ledger
from rowq.worker.plan import ConsumerOptions
from tests.docs.page import ROOT, page

SETTINGS = page("docs/reference/settings.md")
ERRORS = page("docs/reference/errors.md")
PYTHON = page("docs/reference/python.md")
CLI = page("docs/reference/cli.md")
SPARK = page("docs/reference/spark.md")


def commands(group: Any, before: str = "") -> dict[str, Any]:
    """Every command by its whole name, those of a group (`keys create`) too, without old names."""
    found: dict[str, Any] = {}
    for name, command in group.commands.items():
        if command.hidden:
            continue
        found |= commands(command, f"{name} ") if hasattr(command, "commands") else {f"{before}{name}": command}
    return found


COMMANDS = commands(typer.main.get_command(app))
ERROR_CLASSES = {name: kind for name, kind in vars(errors).items() if inspect.isclass(kind) and issubclass(kind, errors.RowqError)}
OLD_VERBS = {"sweep", "run_sweep"}
"""Accepted for one release, and not in the documents."""
VERBS = {name: verb for name, verb in inspect.getmembers(rowq.Broker, callable) if not name.startswith("_") and name not in OLD_VERBS}
STRUCTS = [
    kind
    for kind in map(vars(rowq).get, rowq.__all__)
    if inspect.isclass(kind) and issubclass(kind, Struct) and kind not in (rowq.Policy, rowq.Settings)
]
"""What users hold in their hands. Settings have a page of their own."""


def plain(cell: str) -> str:
    """The first piece of code in a cell of a table."""
    found = re.search(r"`([^`]+)`", cell)
    return found[1] if found else cell


def in_seconds(name: str) -> object:
    """A default of the engine as Python spells it."""
    policy = rowq.Policy()
    value = getattr(policy, name, None) if hasattr(policy, name) else getattr(policy, f"{name}_ms") // 1000
    return [delay // 1000 for delay in value.delays_ms] if isinstance(value, Delays) else value


def test_the_settings_are_listed_in_their_order() -> None:
    assert [plain(row[0]) for row in SETTINGS.table("setting")] == list(SettingsOptions.__annotations__)


@pytest.mark.parametrize("row", SETTINGS.table("setting"), ids=lambda row: plain(row[0]))
def test_a_setting_shows_its_default(row: list[str]) -> None:
    assert ast.literal_eval(plain(row[1])) == in_seconds(plain(row[0]))


def test_every_error_is_listed_with_its_code() -> None:
    listed = {plain(row[0]): plain(row[1]) for row in ERRORS.table("error")}
    assert listed == {name: kind.code for name, kind in ERROR_CLASSES.items()}


def test_every_error_says_what_to_do() -> None:
    assert all(len(row) == 4 and all(row) for row in ERRORS.table("error"))


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_every_verb_is_listed_as_it_is_called(verb: str) -> None:
    assert called(verb, VERBS[verb]) in PYTHON.code


@pytest.mark.parametrize("function", ["connect", "connect_async", "migrate", "exponential", "linear"])
def test_every_function_is_listed_as_it_is_called(function: str) -> None:
    assert called(f"rowq.{function}", getattr(rowq, function)) in PYTHON.code


@pytest.mark.parametrize("function", [spark.session, spark.register], ids=lambda function: function.__name__)
def test_every_function_for_spark_is_listed_as_it_is_called(function: Any) -> None:
    assert called(f"rowq.spark.{function.__name__}", function) in SPARK.code


def test_every_verb_of_a_ledger_is_listed_as_it_is_called() -> None:
    listed = [code for row in PYTHON.table("verb of a ledger") for code in re.findall(r"`([^`]+)`", row[0])]
    assert sorted(listed) == sorted(called(name, verb) for name, verb in public(Ledger).items() if name != "identity")


@pytest.mark.parametrize(
    ("kind", "section"),
    [
        (rowq.Within, "Inside your own transaction"),
        (rowq.AsyncProducer, "Producers and consumers"),
        (rowq.Consumer, "Producers and consumers"),
        (rowq.AsyncConsumer, "Producers and consumers"),
        (rowq.ManualClock, "Connecting"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_every_method_is_mentioned(kind: type[Any], section: str) -> None:
    text = PYTHON.section(section)
    assert not [name for name in public(kind) if not re.search(rf"`{name}\b", text)]


def test_what_only_one_kind_of_broker_has_is_told() -> None:
    for other in (rowq.AsyncBroker, rowq.RemoteBroker, rowq.AsyncRemoteBroker):
        missing = {name for name in dir(rowq.Broker) if not name.startswith("_")} - set(dir(other))
        assert missing <= {"walk"} and "without `walk`" in PYTHON.prose


def public(kind: type[Any]) -> dict[str, Any]:
    return {name: each for name, each in inspect.getmembers(kind) if not name.startswith("_")}


def called(name: str, function: Any) -> str:
    """`receive(queue, *, max=1, …)`: the signature without its types."""
    signature = inspect.signature(function)
    parameters = [each.replace(annotation=inspect.Parameter.empty) for each in signature.parameters.values() if each.name != "self"]
    return name + str(signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty))


@pytest.mark.parametrize(
    ("title", "options"),
    [
        ("option", SendOptions),
        ("option of browse", BrowseOptions),
        ("option of connect", ConnectOptions),
        ("option of consumer", ConsumerOptions),
    ],
)
def test_every_option_is_listed(title: str, options: type[Any]) -> None:
    assert [plain(row[0]) for row in PYTHON.table(title)] == list(options.__annotations__)


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda struct: struct.__name__)
def test_every_field_of_what_users_hold_is_listed(struct: type[Any]) -> None:
    row = next(row for row in PYTHON.table("type") if plain(row[0]) == struct.__name__)
    assert re.findall(r"`(\w+)`", row[1]) == list(struct.__struct_fields__)


@pytest.mark.parametrize("name", sorted(set(rowq.__all__) - set(ERROR_CLASSES) - {"__version__"}))
def test_every_public_name_is_mentioned(name: str) -> None:
    assert re.search(rf"`(rowq\.)?{name}\b", PYTHON.prose)


def test_every_command_is_listed() -> None:
    assert {plain(row[0]) for row in CLI.table("command")} == set(COMMANDS)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_command_has_a_section_with_its_arguments_and_options(name: str) -> None:
    section = CLI.section(name)
    own = [
        parameter
        for parameter in COMMANDS[name].params
        if parameter.name not in ("url", "json", "help") and not getattr(parameter, "hidden", False)
    ]
    told = {option for parameter in own for option in (*parameter.opts, *parameter.secondary_opts) if option.startswith("--")}
    told |= {parameter.metavar for parameter in own if isinstance(parameter, typer.core.TyperArgument) and parameter.metavar}
    missing = sorted(word for word in told if not re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", section))
    assert not missing, f"docs/reference/cli.md says nothing of {missing} of `rowq {name}`"
    invented = set(re.findall(r"(?<![\w-])--[a-z0-9-]+", section)) - told - {"--json", "--url", "--"}
    assert not invented, f"`rowq {name}` has no {sorted(invented)}"


def test_every_exit_code_is_listed() -> None:
    codes = {0, output.FAILED, output.USAGE, output.NOTHING, output.DATABASE, output.INTERRUPTED, output.READER_GONE}
    assert {int(plain(row[0])) for row in CLI.table("exit code")} == codes


def test_every_code_of_the_command_line_itself_is_listed() -> None:
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src/rowq/cli").glob("*.py"))
    own = set(re.findall(r'\bcode="(\w+)"', sources)) - {kind.code for kind in ERROR_CLASSES.values()}
    listed = CLI.section("Exit codes").rpartition("of the command line itself:")[2]
    assert set(re.findall(r"`(\w+)`", listed)) == own


def test_every_maintenance_task_is_listed() -> None:
    assert re.findall(r"`([a-z-]+)`", CLI.section("maintenance-tasks").rpartition(":")[2]) == [task.name for task in TASKS]


def test_every_extra_for_users_is_listed() -> None:
    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"])
    listed = {name for row in page("docs/guide/deployment.md").table("extra") for name in re.findall(r"`([\w-]+)`", row[0])}
    assert listed == extras - {"docs", "dev", "dev-mysqlclient", "fuzz", "audit", "bench"}


def test_every_target_of_make_is_listed() -> None:
    targets = set(re.findall(r"^([a-z]+):.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)) - {"help"}
    listed = {plain(row[0]).removeprefix("make").strip() for row in page("CONTRIBUTING.md").table("command")}
    assert listed == targets | {""}


def test_every_event_of_a_message_is_listed() -> None:
    listed = {name for row in page("docs/guide/operating.md").table("events of a message") for name in re.findall(r"`(\w+)`", row[0])}
    assert not {*COUNTERS, "dead"} - listed - {"retired"}
