"""What the errors of a database server mean, in the same words for PostgreSQL and MariaDB. Each dialect has its own codes for them."""

from __future__ import annotations

from rowq.errors import InvalidArgument, OutcomeUnknown, RowqError, SchemaMismatch, StoreBusy, StoreFull, StoreUnavailable
from rowq.store.retry import ConnectionLost, TryAgain, WouldWait

Meaning = tuple[type[RowqError], str]
"""rowq's error, and its text, in which `{where}` names the database."""

DEADLOCK: Meaning = (TryAgain, "two transactions waited for each other at {where}; nothing was written: try again")
OVERTAKEN: Meaning = (TryAgain, "another transaction got in the way at {where}; nothing was written: try again")
SAME_KEY: Meaning = (TryAgain, "another transaction wrote the same key at {where} at the same moment; nothing was written: try again")
LOCKED: Meaning = (WouldWait, "another transaction has locked a row at {where}; nothing was written: look for a long transaction")
LOST: Meaning = (ConnectionLost, "the connection to {where} broke; nothing was written")
SLOW: Meaning = (StoreBusy, "{where} did not finish in time; nothing was written: try again, or raise timeout")
FULL: Meaning = (StoreFull, "no room left on the disk of {where}; nothing was written: free some space")
NO_MEMORY: Meaning = (StoreUnavailable, "{where} is out of memory")
NO_RIGHTS: Meaning = (StoreUnavailable, "the user lacks rights that rowq needs at {where}: GRANT them, or let an owner run `rowq migrate`")
NO_DATABASE: Meaning = (StoreUnavailable, "the database does not exist at {where}: create it first")
NO_TABLE: Meaning = (SchemaMismatch, "a table of rowq is missing at {where}: run `rowq migrate`")
NO_COLUMN: Meaning = (SchemaMismatch, "a column of rowq is missing at {where}: run `rowq migrate`")
UNREACHABLE: Meaning = (StoreUnavailable, "cannot connect to {where}: is it running, and are host and port right?")


def raised_as(meaning: Meaning, where: str, reason: str) -> RowqError:
    """`reason`: the server's own words."""
    kind, text = meaning
    return kind(f"{text.format(where=where)} [{' '.join(reason.split())[:300]}]")


def in_doubt(where: str) -> OutcomeUnknown:
    return OutcomeUnknown(f"the connection to {where} broke while committing: it may or may not have been written")


def elsewhere(where: str) -> InvalidArgument:
    """The error for an application's connection to another database."""
    return InvalidArgument(f"within() needs a connection to {where}, where the queue lives; this is another database")
