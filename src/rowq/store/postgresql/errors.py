"""Translates PostgreSQL's error codes into rowq's errors, each with advice."""

from __future__ import annotations

import re

import psycopg

from rowq.errors import RowqError, SchemaMismatch, StoreBusy, StoreError, StoreFull, StoreReadOnly, StoreUnavailable
from rowq.store.retry import ConnectionLost, TryAgain, WouldWait

_MEANINGS: dict[str, tuple[type[RowqError], str]] = {
    "40P01": (TryAgain, "two transactions waited for each other at {where}; nothing was written: try again"),
    "40001": (TryAgain, "another transaction got in the way at {where}; nothing was written: try again"),
    "23505": (TryAgain, "another transaction wrote the same key at {where} at the same moment; nothing was written: try again"),
    "55P03": (WouldWait, "another transaction has locked a row at {where}; nothing was written: look for a long transaction"),
    "57014": (StoreBusy, "{where} did not finish in time; nothing was written: try again, or raise timeout"),
    "53300": (StoreBusy, "{where} has no connection left: raise its max_connections, or put a pooler in front of it"),
    "53400": (StoreBusy, "{where} is at a limit of its configuration"),
    "53100": (StoreFull, "no room left on the disk of {where}; nothing was written: free some space"),
    "53200": (StoreUnavailable, "{where} is out of memory"),
    "25006": (StoreReadOnly, "{where} may not be written: is it a standby? Give the address of the primary"),
    "28P01": (StoreUnavailable, "{where} refuses the password"),
    "28000": (StoreUnavailable, "{where} refuses this user: check the user's name and pg_hba.conf"),
    "3D000": (StoreUnavailable, "the database does not exist at {where}: create it first"),
    "42501": (StoreUnavailable, "the user lacks rights that rowq needs at {where}: GRANT them, or let an owner run `rowq migrate`"),
    "42P01": (SchemaMismatch, "a table of rowq is missing at {where}: run `rowq migrate`"),
    "42703": (SchemaMismatch, "a column of rowq is missing at {where}: run `rowq migrate`"),
    "3F000": (SchemaMismatch, "the schema of rowq is missing at {where}: run `rowq migrate`"),
}
_GONE = ("08", "57P")
"""Code classes: the connection broke, or the server is shutting down."""
_LOST_IN_TRANSACTION = ("25P03", "25P04")
"""The server ended our transaction because it was idle for too long."""


def translate(error: psycopg.Error, where: str) -> RowqError:
    code = error.sqlstate or ""
    kind, text = _MEANINGS.get(code, (StoreError, "PostgreSQL refused at {where}"))
    if is_lost(error):
        kind, text = ConnectionLost, "the connection to {where} broke; nothing was written"
    return kind(f"{text.format(where=where)} [{_reason(error)}]")


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
    kind, meaning = _MEANINGS.get(
        _code(error), (StoreUnavailable, "cannot connect to {where}: is it running, and are host and port right?")
    )
    return kind(f"{meaning.format(where=where)} [{_reason(error)}]")


def is_worth_another_try(error: psycopg.Error) -> bool:
    """Whether another attempt to connect may succeed: a restarting server comes back, a wrong password stays wrong."""
    return _code(error) in ("", "53300")


def _code(error: psycopg.Error) -> str:
    text = str(error)
    return next((code for words, code in _CONNECTING.items() if words.search(text)), "")


def _reason(error: psycopg.Error) -> str:
    return " ".join(str(error).split())[:300]
