"""How a function becomes a command: each gets --url and --json, and a session built from them."""

from __future__ import annotations

import getpass
import inspect
import re
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup

import rowq
from rowq.cli.output import Output
from rowq.deprecation import renaming

DEFAULT_URL = "sqlite:///rowq.db"
REMOTE_TIMEOUT = 5.0
"""A person is waiting at the terminal, so an unreachable server is reported sooner than to a program."""
SHARED_PANEL = "Database and output"
_WORDS = {"bool": "", "str": "TEXT", "int": "NUMBER", "int range": "NUMBER", "float": "NUMBER", "path": "PATH"}

Url = Annotated[
    str | None,
    typer.Option(
        "--url", metavar="URL", help=f"The database or server. Default: ROWQ_URL, else {DEFAULT_URL}.", rich_help_panel=SHARED_PANEL
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON; for a list, one object per line.", rich_help_panel=SHARED_PANEL)]


class Session:
    """One run of the command line: which database, and where results go."""

    def __init__(self, url: str | None, *, json: bool) -> None:
        self.given_url = url
        self.url = url or DEFAULT_URL
        self.output = Output(json=json)

    def connect(self, *, create: bool = False, maintenance: bool = False) -> rowq.Broker:
        """The broker. Only commands that put something into a database create one: elsewhere a mistyped URL is an error."""
        if self.is_remote:
            return rowq.connect(self.url, timeout=None if "timeout=" in self.url else REMOTE_TIMEOUT)
        return rowq.connect(self.url, migrate=create, maintenance=maintenance, actor=actor())

    @property
    def is_remote(self) -> bool:
        """Whether this is a server: it owns the database, and records the name of the key in the audit."""
        return self.url.lower().startswith(("http://", "https://"))


def add_command(
    app: typer.Typer, panel: str | None, function: Callable[..., None], name: str | None = None, *, is_old_name: bool = False
) -> None:
    """Registers `function(session, …)` under its name in a panel of the help; the parameters after the session become its options."""
    own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    shared = list(inspect.signature(_shared, eval_str=True).parameters.values())
    parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in (*own, *shared)]

    def run(**given: Any) -> None:
        if is_old_name:
            typer.echo(renaming(f"rowq {name}", f"rowq {function.__name__.replace('_', '-')}"), err=True)
        context, url, json = given.pop("context"), given.pop("url"), given.pop("json")
        session = Session(url or context.obj.url, json=json or context.obj.json)
        session.output.require()
        _check_text(given)
        function(session, **given)

    run.__name__, run.__doc__ = function.__name__, function.__doc__
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__dict__["__signature__"] = inspect.Signature(parameters)
    app.command(name, cls=Command, rich_help_panel=panel, hidden=is_old_name)(run)


class Command(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        return _in_plain_words(super().get_params(ctx), ctx)


class Group(TyperGroup):
    def get_params(self, ctx: Any) -> list[Any]:
        return _in_plain_words(super().get_params(ctx), ctx)


def _in_plain_words(parameters: list[Any], context: Any) -> list[Any]:
    """For the help: Typer shows Python types such as <list[str]>, and <bool> after a flag without a value. Older releases differ."""
    for parameter in parameters:
        if isinstance(parameter, TyperArgument):
            vars(parameter)["display_type_rich"] = lambda ctx: None  # its name says it
        elif parameter.metavar is None and hasattr(parameter, "display_type"):
            kind = re.sub(r"<(?:list\[)?(.*?)\]?>", r"\1", parameter.display_type(context))
            parameter.metavar = _WORDS.get(kind, kind)
    return parameters


class Shared(NamedTuple):
    """Options given before the name of the command."""

    url: str | None
    json: bool


def _shared(context: typer.Context, url: Url = None, json: Json = False) -> None:
    """The parameters that every command has."""


def _check_text(given: dict[str, Any]) -> None:
    """Refuses arguments that are not UTF-8; only a payload may be arbitrary bytes."""
    for name, value in given.items():
        for word in value if isinstance(value, list) else [value]:
            if isinstance(word, str) and name != "payload" and not _is_text(word):
                raise rowq.InvalidArgument(f"{word!r} is not UTF-8: write {name.upper()} in the encoding of the terminal")


def _is_text(word: str) -> bool:
    """Bytes that are not UTF-8 reach Python as lone surrogates, which cannot be encoded again."""
    return not any("\ud800" <= character <= "\udfff" for character in word)


def actor() -> str:
    """The actor, for the audit; a container's user may have no name."""
    try:
        return f"cli:{getpass.getuser()}"
    except (OSError, KeyError):
        return "cli"
