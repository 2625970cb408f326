"""The house rules hold in our source, and each rule really finds what it forbids."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.architecture import rules
from tests.architecture.source import Module, modules

Rule = Callable[[Module], Iterator[str]]


def breaches(rule: Rule, folder: str) -> str:
    return "\n".join(breach for module in modules(folder) for breach in rule(module))


@pytest.mark.parametrize(
    "rule",
    [rules.short_files, rules.short_functions, rules.telling_names, rules.opening_sentence, rules.sql_in_sql_files],
    ids=lambda rule: rule.__name__,
)
def test_the_source_keeps_the_rule(rule: Rule) -> None:
    found = breaches(rule, "src")
    assert not found, f"\n{found}"


def test_tests_move_time_and_do_not_sleep_through_it() -> None:
    found = breaches(rules.no_sleep, "tests")
    assert not found, f"\n{found}"


LONG_FUNCTION = "def f():\n" + "    x = 1\n" * 50

BROKEN = [
    (rules.short_files, "src/rowq/a.py", "x = 1\n" * 401),
    (rules.short_functions, "src/rowq/a.py", LONG_FUNCTION),
    (rules.short_functions, "src/rowq/a.py", "class A:\n    async " + LONG_FUNCTION.replace("\n", "\n    ")),
    (rules.telling_names, "src/rowq/utils.py", ""),
    (rules.telling_names, "src/rowq/core/a.py", ""),
    (rules.telling_names, "src/rowq/_base.py", ""),
    (rules.opening_sentence, "src/rowq/a.py", "x = 1\n"),
    (rules.opening_sentence, "src/rowq/__init__.py", ""),
    (rules.sql_in_sql_files, "src/rowq/store/a.py", "x = 'SELECT 1'"),
    (rules.sql_in_sql_files, "src/rowq/store/a.py", "x = f'''\n  -- why\n  DELETE FROM {table}'''"),
    (rules.sql_in_sql_files, "src/rowq/store/a.py", "x = 'insert or ignore into kv values (1)'"),
    (rules.sql_in_sql_files, "src/rowq/store/a.py", "x = 'select * from ready where seq = 1'"),
    (rules.sql_in_sql_files, "src/rowq/store/sqlite/dialect.py", "x = 'SELECT value FROM kv'"),
    (rules.sql_in_sql_files, "src/rowq/store/a.py", "x = 'SELECT value FROM json_each(:seqs)'"),
    (rules.sql_in_sql_files, "src/rowq/broker.py", "x = 'BEGIN IMMEDIATE'"),
    (rules.no_sleep, "tests/a.py", "import time\ntime.sleep(1)"),
    (rules.no_sleep, "tests/a.py", "from time import sleep\nsleep(0)"),
    (rules.no_sleep, "tests/a.py", "import time as t\nt.sleep(1)"),
    (rules.no_sleep, "tests/a.py", "import asyncio\nasync def f(): await asyncio.sleep(0.1)"),
]

SOUND = [
    (rules.short_files, "src/rowq/a.py", "x = 1\n" * 400),
    (rules.short_functions, "src/rowq/a.py", LONG_FUNCTION.removesuffix("    x = 1\n")),
    (rules.telling_names, "src/rowq/store/database.py", ""),
    (rules.opening_sentence, "src/rowq/a.py", '"""What it is."""'),
    (rules.sql_in_sql_files, "src/rowq/store/sqlite/dialect.py", "x = 'BEGIN IMMEDIATE'; y = 'PRAGMA optimize'"),
    (rules.sql_in_sql_files, "src/rowq/store/sqlite/session.py", "x = 'SELECT value FROM json_each(:seqs)'"),
    (rules.sql_in_sql_files, "src/rowq/cli/a.py", "x = 'Select messages from a queue'; y = 'Delete from the queue'; z = 'DELETE'"),
    (rules.no_sleep, "tests/a.py", "import asyncio\nasync def f(): await asyncio.sleep(0)"),
]


@pytest.mark.parametrize(("rule", "path", "text"), BROKEN)
def test_a_rule_finds_what_it_forbids(rule: Rule, path: str, text: str) -> None:
    assert list(rule(Module(path, text)))


@pytest.mark.parametrize(("rule", "path", "text"), SOUND)
def test_a_rule_leaves_sound_code_alone(rule: Rule, path: str, text: str) -> None:
    assert not list(rule(Module(path, text)))
