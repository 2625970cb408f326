"""The compatible API in SQL: procedures, functions and views in a schema of the user's database, through which PEQ clients use a queue.

The schema has the queue's name. The engine's constants (settings, marks, limits) are written into the SQL when the schema is created, so
that they are defined in one place.
"""

from __future__ import annotations

import re
from hashlib import sha256

import msgspec

from rowq.errors import InvalidArgument
from rowq.model.draft import GROUPED, HAS_DEADLINE, HAS_OWN_ID, KEYED, MODE_MARKS
from rowq.model.duration import LONGEST_MS
from rowq.model.payload import MAX_DEPTH
from rowq.model.queue import Policy, Settings, check_own_name
from rowq.model.retry import Exponential
from rowq.model.stream import UNTIL_SETTLED
from rowq.store.dialect import Finding, Session
from rowq.store.query import read_sql

SETTINGS = Settings(lease_ms=30_000, max_attempts=8, backoff=Exponential(base_ms=0, cap_ms=0), keep="body")
"""The default settings of a queue with such a schema: seven immediate retries, and a history."""

_LONGEST_NAME = 63
"""PostgreSQL truncates longer names."""
_STATEMENT = re.compile(r"^(?=(?:CREATE|INSERT|UPDATE) )", re.MULTILINE)
_VIEW = re.compile(r"^CREATE OR REPLACE VIEW \{door\}\.(\w+)", re.MULTILINE)
_FILES = ("rules", "moves", "verbs", "views")
_PINNED = "\n".join(
    ["SET search_path = pg_catalog, pg_temp"]
    + [f"SET enable_{way} = off" for way in ("seqscan", "bitmapscan", "sort", "hashjoin", "mergejoin")]
)
"""Settings of the functions that read tables. A session plans each statement once: planned while a table is empty, it would scan the whole
table from then on instead of using the index."""


def install(session: Session, queue: str, tables: str) -> None:
    """Creates or recreates the schema. `tables` is the schema of the engine's own tables."""
    schema = _check_schema(queue, tables)
    is_there, is_ours, is_full, lacks_uuids = session.rows("look_at_schema", name=schema)[0]
    if is_full and not is_ours:
        raise InvalidArgument(
            f"the schema {schema!r} holds other objects than PEQ's procedures for these tables: choose another name, or drop it first"
        )
    files = (*(() if is_there else ("schema",)), *(("uuid",) if lacks_uuids else ()), *_FILES)
    session.install([statement for file in files for statement in _statements(file, schema, tables)])


def _statements(file: str, schema: str, tables: str) -> list[str]:
    """The statements of a file, for a schema. Names need no escaping: they contain no characters that are special inside quotes."""
    script = read_sql(f"peq/{file}.sql")
    for word, text in _words(schema, tables).items():
        script = script.replace(f"{{{word}}}", text)
    return _STATEMENT.split(script)[1:]


def examine(session: Session) -> Finding:
    """Whether every schema was created by this release and is complete: dropping our tables also drops the views on them."""
    views = _VIEW.findall(read_sql("peq/views.sql"))
    installed = session.rows("list_installed", fingerprint=_fingerprint(), views=",".join(views))
    for fault, faulty in (
        ("made by another release", [schema for schema, is_new, _ in installed if not is_new]),
        ("without some of their views, which were dropped with their tables", [schema for schema, _, has in installed if has < len(views)]),
    ):
        if faulty:
            advice = f"run `rowq peq install {faulty[0]}` again, then for the others"
            return Finding("peq", False, f"{fault}: {', '.join(faulty)}", advice)
    return Finding("peq", True, ", ".join(schema for schema, *_ in installed) or "none")


def _check_schema(queue: str, tables: str) -> str:
    schema = check_own_name(queue)
    if len(schema) > _LONGEST_NAME or schema.startswith("pg_") or schema in (tables, "public", "information_schema"):
        raise InvalidArgument(
            f"{schema!r} cannot be the schema of PEQ's procedures: take a name of up to {_LONGEST_NAME} characters that no other schema "
            "has, and that does not begin with pg_"
        )
    return schema


def _words(schema: str, tables: str) -> dict[str, str]:
    return {"door": f'"{schema}"', "tables": f'"{tables}"', "queue": schema, "fingerprint": _fingerprint(), **_facts()}


def _fingerprint() -> str:
    scripts = [read_sql(f"peq/{file}.sql") for file in _FILES]
    return sha256("\n".join([*scripts, *_facts().values()]).encode()).hexdigest()[:16]


def _facts() -> dict[str, str]:
    return {
        "pinned": _PINNED,
        "defaults": msgspec.json.encode(Policy()).decode(),
        "settings": msgspec.json.encode(SETTINGS).decode(),
        "bound": str(KEYED | GROUPED),
        "has_deadline": str(HAS_DEADLINE),
        "has_own_id": str(HAS_OWN_ID),
        "at_most_once": str(MODE_MARKS["at_most_once"]),
        "at_least_once": str(MODE_MARKS["at_least_once"]),
        "until_settled": str(UNTIL_SETTLED),
        "longest": str(LONGEST_MS),
        "deepest": str(MAX_DEPTH),
        "deeper": f"{{{MAX_DEPTH + 1}}}",
    }
