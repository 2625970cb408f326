"""The house rules that a machine can see. Each takes a module and yields what it breaks, with what to do about it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from tests.architecture.source import Module

FILE_LINES = 400
FUNCTION_LINES = 50
EMPTY_NAMES = {"utils", "helpers", "common", "base", "core", "misc", "manager"}

PHRASES = {"src/rowq/store/sqlite/session.py": "SELECT value FROM json_each("}
"""Part of a statement that a dialect fills into a query of its .sql file: how SQLite takes a list."""

_COMMENTS = r"(?:\s|--[^\n]*\n)*"
_STATEMENT = re.compile(
    _COMMENTS + r"(?:(?:SELECT|INSERT|UPDATE|DELETE|CREATE|REPLACE|DROP|ALTER|WITH)\s"
    r"|(?i:select\s.*\sfrom\s+\w+\s+(?:where|order|group|limit|join)|insert\s+(?:or\s+\w+\s+)?into|replace\s+into|delete\s+from\s+\w+\s+where"
    r"|update\s+\w+\s+set|(?:create|drop|alter)\s+(?:temp\s+|unique\s+)?(?:table|index|view|trigger)))",
    re.DOTALL,
)
_SESSION = re.compile(_COMMENTS + r"(?:PRAGMA|BEGIN|COMMIT|ROLLBACK|SAVEPOINT|RELEASE|ATTACH|VACUUM)(?:\s|;|$)")


def short_files(module: Module) -> Iterator[str]:
    lines = module.text.count("\n")
    if lines > FILE_LINES:
        yield f"{module.path} has {lines} lines, {FILE_LINES} are the limit: find the second idea in it and give that a file of its own"


def short_functions(module: Module) -> Iterator[str]:
    for node in module.nodes():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES:
                yield f"{module.at(node.lineno)} {node.name} has {lines} lines, {FUNCTION_LINES} are the limit: give a step of it a name"


def telling_names(module: Module) -> Iterator[str]:
    for part in PurePosixPath(module.path).with_suffix("").parts:
        if part.strip("_") in EMPTY_NAMES:
            yield f"{module.path}: '{part}' says nothing of what is inside; name it after the thing, in the singular"


def opening_sentence(module: Module) -> Iterator[str]:
    if not ast.get_docstring(module.tree):
        yield f"{module.path} opens without a docstring: say in one sentence what it is, and what may go in it"


def sql_in_sql_files(module: Module) -> Iterator[str]:
    """Statements belong in .sql files; what steers a connection (PRAGMA, BEGIN …) may stand in the store's Python."""
    in_store = "store" in PurePosixPath(module.path).parts
    phrase = PHRASES.get(module.path)
    for node in module.nodes():
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if phrase and node.value.startswith(phrase):
                continue
            if _STATEMENT.match(node.value):
                yield f"{module.at(node.lineno)} holds SQL: move it to a .sql file of the store, under a '-- name:'"
            elif _SESSION.match(node.value) and not in_store:
                yield f"{module.at(node.lineno)} steers a connection: that is for a dialect in store/ to do"


def no_sleep(module: Module) -> Iterator[str]:
    """time.sleep under any name, and asyncio.sleep for longer than the 0 that lets other tasks run."""
    if "sleep" not in module.text:
        return
    aliases = _imported_names(module)
    for node in module.nodes():
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            first, _, rest = called.partition(".")
            name = ".".join(filter(None, (aliases.get(first, first), rest)))
            gives_way = [ast.unparse(value) for value in node.args] == ["0"]
            if name == "time.sleep" or (name == "asyncio.sleep" and not gives_way):
                yield f"{module.at(node.lineno)} sleeps: move a ManualClock, or wait for the condition with a deadline"


def _imported_names(module: Module) -> dict[str, str]:
    names: dict[str, str] = {}
    for node in module.nodes():
        if isinstance(node, ast.Import):
            names |= {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return names
