"""Translates PostgreSQL's error codes into rowq's errors, each with advice."""

from __future__ import annotations

import re

import psycopg

from rowq.errors import RowqError, SchemaMismatch, StoreBusy, StoreError, StoreReadOnly, StoreUnavailable
from rowq.store.server import errors as meaning
from rowq.store.server.errors import Meaning, raised_as

_MEANINGS: dict[str, Meaning] = {
    "40P01": meaning.DEADLOCK,
    "40001": meaning.OVERTAKEN,
    "23505": meaning.SAME_KEY,
    "55P03": meaning.LOCKED,
    "57014": meaning.SLOW,
    "53300": (StoreBusy, "{where} has no connection left: raise its max_connections, or put a pooler in front of it"),
    "53400": (StoreBusy, "{where} is at a limit of its configuration"),
    "53100": meaning.FULL,
    "53200": meaning.NO_MEMORY,
    "25006": (StoreReadOnly, "{where} may not be written: is it a standby? Give the address of the primary"),
    "28P01": (StoreUnavailable, "{where} refuses the password"),
    "28000": (StoreUnavailable, "{where} refuses this user: check the user's name and pg_hba.conf"),
    "3D000": meaning.NO_DATABASE,
    "42501": meaning.NO_RIGHTS,
    "42P01": meaning.NO_TABLE,
    "42703": meaning.NO_COLUMN,
    "3F000": (SchemaMismatch, "the schema of rowq is missing at {where}: run `rowq migrate`"),
}
_GONE = ("08", "57P")
"""Code classes: the connection broke, or the server is shutting down."""
_LOST_IN_TRANSACTION = ("25P03", "25P04")
"""The server ended our transaction because it was idle for too long."""


def translate(error: psycopg.Error, where: str) -> RowqError:
    code = error.sqlstate or ""
    meant = meaning.LOST if is_lost(error) else _MEANINGS.get(code, (StoreError, "PostgreSQL refused at {where}"))
    return raised_as(meant, where, str(error))


def is_lost(error: psycopg.Error) -> bool:
    """Whether the connection is lost. An error without a code comes from the driver itself."""
    code = error.sqlstate or ""
    return code.startswith(_GONE) or code in _LOST_IN_TRANSACTION or (not code and isinstance(error, psycopg.OperationalError))


_CONNECTING = {
    re.compile(r"too many connections for |too many clients|remaining connection slots"): "53300",
    re.compile(r"password authentication failed|no password supplied"): "28P01",
    re.compile(r'no pg_hba\.conf entry|role ".*" (?:does not exist|is not permitted)'): "28000",
    re.compile(r'database ".*" does not exist'): "3D000",
}
"""A failed attempt to connect has no code, only a text. Whole phrases are matched, because a host or path may contain any word."""


def refusal(error: psycopg.Error, where: str) -> RowqError:
    """The error for a failed attempt to connect."""
    return raised_as(_MEANINGS.get(_code(error), meaning.UNREACHABLE), where, str(error))


def is_worth_another_try(error: psycopg.Error) -> bool:
    """Whether another attempt to connect may succeed: a restarting server comes back, a wrong password stays wrong."""
    return _code(error) in ("", "53300")


def _code(error: psycopg.Error) -> str:
    text = str(error)
    return next((code for words, code in _CONNECTING.items() if words.search(text)), "")
