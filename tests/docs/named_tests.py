"""Tests that a page names as its proof: they must be there, by file, name and, where it says one, case."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache, reduce
from importlib import import_module
from typing import Any

from _pytest.mark import ParameterSet

from tests.docs.page import ROOT, Page

_NAME = re.compile(r"(tests/[\w/]+\.py)(?:::([\w:]+)(?:\[(.+)\])?)?")


def named(page: Page) -> list[str]:
    """Every test, or file of tests, that stands in single backticks: `tests/docs/test_links.py::test_every_link_leads_somewhere`."""
    return [code for code in page.code if _NAME.fullmatch(code)]


def named_in(text: str) -> list[str]:
    """The same in a part of a page, such as the cell of a table."""
    return named(Page("", text))


def missing(names: Iterable[str]) -> list[str]:
    """Those that nobody would find."""
    return [name for name in dict.fromkeys(names) if not _is_there(name)]


def _is_there(name: str) -> bool:
    parts = _NAME.fullmatch(name)
    if parts is None:
        return False
    file, function, case = parts.groups()
    if not (ROOT / file).is_file() or (function and function not in _functions(file)):
        return False
    return case is None or case in _cases(file, function)


@cache
def _functions(file: str) -> set[str]:
    return set(_defined(ast.parse((ROOT / file).read_text(encoding="utf-8")).body))


def _defined(body: list[ast.stmt], within: str = "") -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield within + node.name
        elif isinstance(node, ast.ClassDef):
            yield from _defined(node.body, f"{within}{node.name}::")


@cache
def _cases(file: str, function: str) -> set[str]:
    """As pytest calls them, of a test with one list of parameters."""
    test: Any = reduce(getattr, function.split("::"), import_module(file.removesuffix(".py").replace("/", ".")))
    lists = [mark for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
    if len(lists) != 1:
        return set()
    _, values = lists[0].args
    called = lists[0].kwargs.get("ids") or str
    plain = [value.values[0] if isinstance(value, ParameterSet) else value for value in values]  # a case with a mark is wrapped in one
    return {str(name) for name in (map(called, plain) if callable(called) else called)}
