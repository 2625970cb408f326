"""The reference lists all there is, and nothing else."""

from __future__ import annotations

import ast
import inspect
import re
from typing import Any

import pytest
import typer

import rowq
from rowq import errors
from rowq.cli import failure
from rowq.cli.main import app
from rowq.connect import ConnectOptions
from rowq.model.message import BrowseOptions, SendOptions, SettingsOptions
from rowq.model.retry import Delays
from rowq.workers.plan import ConsumerOptions
from tests.docs.page import page

SETTINGS = page("docs/reference/settings.md")
ERRORS = page("docs/reference/errors.md")
PYTHON = page("docs/reference/python.md")
CLI = page("docs/reference/cli.md")


def commands(group: Any, before: str = "") -> dict[str, Any]:
    """Every command by its whole name, those of a group (`keys create`) too."""
    found: dict[str, Any] = {}
    for name, command in group.commands.items():
        found |= commands(command, f"{name} ") if hasattr(command, "commands") else {f"{before}{name}": command}
    return found


COMMANDS = commands(typer.main.get_command(app))
ERROR_CLASSES = {name: kind for name, kind in vars(errors).items() if inspect.isclass(kind) and issubclass(kind, errors.RowqError)}
VERBS = {name: verb for name, verb in vars(rowq.Broker).items() if callable(verb) and not name.startswith("_")}
STRUCTS = (
    rowq.ApiKey,
    rowq.ConsumerLook,
    rowq.Delivery,
    rowq.Draft,
    rowq.Event,
    rowq.Failure,
    rowq.Failures,
    rowq.Finding,
    rowq.KvEntry,
    rowq.Member,
    rowq.Membership,
    rowq.Message,
    rowq.Stats,
    rowq.Stream,
    rowq.Swept,
    rowq.Where,
)


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
    own = [parameter for parameter in COMMANDS[name].params if parameter.name not in ("url", "json", "help")]
    told = {option for parameter in own for option in (*parameter.opts, *parameter.secondary_opts) if option.startswith("--")}
    told |= {parameter.metavar for parameter in own if isinstance(parameter, typer.core.TyperArgument) and parameter.metavar}
    missing = sorted(word for word in told if not re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", section))
    assert not missing, f"docs/reference/cli.md says nothing of {missing} of `rowq {name}`"
    invented = set(re.findall(r"(?<![\w-])--[a-z0-9-]+", section)) - told - {"--json", "--url", "--"}
    assert not invented, f"`rowq {name}` has no {sorted(invented)}"


def test_every_exit_code_is_listed() -> None:
    codes = {0, failure.FAILED, failure.USAGE, failure.NOTHING, failure.DATABASE, failure.INTERRUPTED, failure.READER_GONE}
    assert {int(plain(row[0])) for row in CLI.table("exit code")} == codes
