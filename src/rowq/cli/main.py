"""The entry point of the command line, and its table of commands."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Annotated, NamedTuple

import typer

import rowq
from rowq.cli import api_keys, database, dead_letters, messages, pipeline, queues, receipts, serve, streams, transfer
from rowq.cli.command import DEFAULT_URL, SHARED_PANEL, Group, Json, Shared, add_command
from rowq.cli.output import READER_GONE, USAGE, Failure, Output, ReaderGone, UsageError, give_up_stdout, report, understand

CONTENTS: dict[str, tuple[Callable[..., None], ...]] = {
    "Messages": (messages.send, messages.receive, messages.browse, messages.get, messages.audit, messages.delete),
    "Deliveries, by receipt": (receipts.ack, receipts.nack, receipts.reject, receipts.reschedule, receipts.extend),
    "Queues": (queues.stats, queues.consumers, queues.configure, queues.pause, queues.resume, queues.purge),
    "Dead letters": (dead_letters.dead, dead_letters.failures, dead_letters.redrive, dead_letters.delete_dead),
    "In and out": (transfer.load, transfer.dump, transfer.copy),
    "Database": (database.doctor, database.migrate, database.maintain, database.maintenance_tasks),
    "Server": (serve.serve,),
}
RENAMED: dict[str, Callable[..., None]] = {"sweep": database.maintain, "sweeps": database.maintenance_tasks}
"""Commands of the release before, which work for one release and are not in the help."""


class _Noun(NamedTuple):
    """Commands of two words: `rowq keys create`."""

    name: str
    panel: str
    help: str
    commands: dict[str, Callable[..., None]]


NOUNS = (
    _Noun(
        "keys",
        "Server",
        "Create, list and revoke keys to the server.",
        {"create": api_keys.create, "list": api_keys.list_keys, "revoke": api_keys.revoke},
    ),
    _Noun(
        "streams",
        "Queues",
        """List streams, revoke one, or quarantine messages of it.

        A stream is how a Spark query takes messages: under its streamId, in numbered batches.
        """,
        {"list": streams.list_streams, "revoke": streams.revoke, "quarantine": streams.quarantine},
    ),
    _Noun(
        "peq",
        "Database",
        """Queues for clients of PEQ, which call procedures in SQL.

        PEQ is the Postgres Enterprise Queue. On PostgreSQL its procedures can be installed for queues of rowq.
        """,
        {"install": database.install},
    ),
    _Noun(
        "pipeline",
        "In and out",
        """Archive, report and replay, with Spark.

        A lake is a folder of Parquet files that keeps what happened to messages.
        Spark and Java have to be installed: rowq doctor checks that.
        """,
        {each.__name__: each for each in (pipeline.archive, pipeline.report, pipeline.replay, pipeline.compact, pipeline.vacuum)},
    ),
)

_EPILOG = """\
[bold]Exit codes[/]
  0  done
  1  it failed; a lease was lost
  2  wrong usage, or an invalid argument
  3  nothing there: an empty receive, not found
  4  the database or the server is busy or unavailable
130  interrupted
141  the reader of the output closed it

[bold]Errors[/] are one line on stderr; with --json: {"code", "error"}.
[bold]Durations[/] are 30 or 1.5 (seconds), 500ms, 10s, 5m, 2h, 7d.
"""

app = typer.Typer(name="rowq", cls=Group, epilog=_EPILOG, rich_markup_mode="rich", pretty_exceptions_enable=False)


def _require_command(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(USAGE)


for panel, commands in CONTENTS.items():
    for command in commands:
        add_command(app, panel, command)
for name, command in RENAMED.items():
    add_command(app, None, command, name, is_old_name=True)
for noun in NOUNS:
    group = typer.Typer(cls=Group, help=noun.help, callback=_require_command, invoke_without_command=True)
    for name, command in noun.commands.items():
        add_command(group, None, command, name)
    app.add_typer(group, name=noun.name, rich_help_panel=noun.panel)


def main(args: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code. Expected errors become one line on stderr, never a traceback."""
    given = list(sys.argv[1:] if args is None else args)
    try:
        exit_code = typer.main.get_command(app).main(given, prog_name="rowq", standalone_mode=False)
        Output(json=False).flush()
        return int(exit_code or 0)
    except ReaderGone:
        give_up_stdout()
        return READER_GONE
    except SystemExit as leaving:
        # Shell completion exits this way with 0; Typer and Rich exit with 1 when the reader of the help is gone.
        return READER_GONE if leaving.code == 1 else 0
    except (rowq.RowqError, Failure, UsageError, OSError, typer.Abort, KeyboardInterrupt) as error:
        failure = understand(error)
        _flush_rest()
        report(failure, json=_wants_json(given))
        return failure.exit_code


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    url: Annotated[
        str | None,
        typer.Option(
            "--url", envvar="ROWQ_URL", metavar="URL", help=f"The database or server. Default: {DEFAULT_URL}", rich_help_panel=SHARED_PANEL
        ),
    ] = None,
    json: Json = False,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """A message queue that lives in your database.

    More on each command: rowq COMMAND --help
    """
    context.obj = Shared(url, json)
    if version:
        Output(json=json).answer(f"rowq {rowq.__version__}", version=rowq.__version__)
        raise typer.Exit
    _require_command(context)


def _wants_json(given: list[str]) -> bool:
    """Checked by hand, since a wrong option ends the parsing before --json is seen."""
    return "--json" in (given[: given.index("--")] if "--" in given else given)


def _flush_rest() -> None:
    """Writes out what was printed before the failure, if possible."""
    try:
        Output(json=False).flush()
    except (ReaderGone, Failure):
        give_up_stdout()


if __name__ == "__main__":
    sys.exit(main())
