"""How PostgreSQL runs named queries: many rows as one list per column, and whole verbs in one statement."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from rowq.model.draft import HARMLESS, HAS_DEADLINE
from rowq.model.member import width
from rowq.store.dialect import Acks, Row, Session, Slots
from rowq.store.notify.notifier import Place
from rowq.store.postgresql.pipeline import Line, Statement
from rowq.store.postgresql.types import Numbers, column_of
from rowq.store.query import LIST_PARAMETER, PARAMETER, VALUES, Queries, read_sql
from rowq.store.row import FEW
from rowq.store.server import greenlet_bridge

T = TypeVar("T")

_COLUMN = re.compile(r"^    (\w+) (BIGINT|TEXT|BYTEA|DOUBLE PRECISION)", re.MULTILINE)
_IN_LIST = re.compile(r"IN \(:([a-z_]+)\[\]\)")
_TABLE = re.compile(r"(?<![\w.])(rowq_[a-z_]+)")
_IS_NULL = re.compile(r":([a-z_]+)(?= IS NULL)")
_CONFLICT = re.compile(r"ON CONFLICT \(([a-z_, ]+)\) DO UPDATE")


class PostgresqlQueries(Queries):
    def __init__(self, schema: str) -> None:
        self.schema = schema
        self._types = dict(_COLUMN.findall(read_sql("schema.postgresql.sql"))) | {"text": "TEXT"}
        super().__init__("postgresql", self._render, {"schema": f'"{schema}"', "schema_name": schema})
        self._of_one = {name: _statement(self[name]) for name in self.names()}
        self._of_many: dict[str, Statement | None] = {}
        self._keys = {name: tuple(match[1].split(", ")) for name in self.names() if (match := _CONFLICT.search(self[name]))}
        self._with_lists = {name for name in self.names() if LIST_PARAMETER.search(self[name])}

    def of_one(self, query: str) -> Statement:
        return self._of_one[query]

    def of_many(self, query: str, columns: tuple[str, ...], count: int) -> Statement | None:
        """The query with a list for each column; None if it takes single rows only, or if there is only one row."""
        if count == 1 and query not in self._with_lists:
            return None
        if query not in self._of_many:
            self._of_many[query] = self._with_a_list_for_each(query, columns)
        return self._of_many[query]

    def listed(self, columns: tuple[str, ...], rows: Sequence[Row]) -> dict[str, list[Any]]:
        return {column: column_of(self._types[column], values) for column, values in zip(columns, zip(*rows, strict=True), strict=True)}

    def latest(self, query: str, columns: tuple[str, ...], rows: Sequence[Row]) -> Sequence[Row]:
        """A statement cannot write a row twice: of rows with the same key, only the last is kept."""
        keys = self._keys.get(query)
        if keys is None:
            return rows
        places = [columns.index(key) for key in keys]
        return list({tuple([row[place] for place in places]): row for row in rows}.values())

    def streaming(self, query: str) -> Statement:
        return _statement(self["declare_stream"].replace("<query>", self[query]))

    def _with_a_list_for_each(self, query: str, columns: tuple[str, ...]) -> Statement | None:
        text = self[query]
        if query in self._with_lists:
            return self._of_one[query]
        match = VALUES.search(text)
        if match is None:
            return None
        lists = ", ".join(f"CAST(:{column} AS {self._types[column]}[])" for column in columns)
        given = PARAMETER.sub(r"given.\1", match[1].strip("()"))
        chosen = self["from_lists"].replace("<lists>", lists).replace("<columns>", ", ".join(columns)).replace("<values>", given)
        return _statement(text[: match.start()] + chosen + text[match.end() :])

    def _render(self, text: str) -> str:
        """Qualifies table names, because a pooler loses the search path, and adds the types that PostgreSQL requires for NULL."""
        text = _IN_LIST.sub(r"= ANY (:\1[])", _TABLE.sub(rf'"{self.schema}".\1', text))
        return _IS_NULL.sub(lambda match: f"CAST({match[0]} AS {self._types.get(match[1], 'BIGINT')})", text)


def _statement(text: str) -> Statement:
    text = LIST_PARAMETER.sub(r":\1", text)
    names = list(dict.fromkeys(PARAMETER.findall(text)))
    place = {name: f"${number}" for number, name in enumerate(names, 1)}
    driver_text = PARAMETER.sub(r"%(\1)b", text.replace("%", "%%") if names else text)
    return Statement(PARAMETER.sub(lambda match: place[match[1]], text), names, driver_text)


class PostgresqlSession(Session):
    is_alone = False
    does_at_once = True

    def __init__(self, line: Line, queries: PostgresqlQueries) -> None:
        self._line = line
        self._queries = queries
        self.begin()

    def begin(self) -> None:
        self.xid: int | None = None
        """The transaction id, as soon as it is known."""
        self.has_written = False
        """Whether something was written that must not be written twice. A claim may be: if its answer is lost, its leases expire."""

    def rows(self, query: str, /, **values: Any) -> list[Row]:
        return self._line.ask(self._queries.of_one(query), values)

    def run(self, query: str, /, **values: Any) -> int:
        self.has_written = True
        return self._line.count(self._queries.of_one(query), values)

    def write(self, query: str, /, **values: Any) -> None:
        self.has_written = True
        self._line.send(self._queries.of_one(query), values)

    def many(self, query: str, columns: tuple[str, ...], rows: Sequence[Row]) -> None:
        self.has_written = True
        statement = self._queries.of_many(query, columns, len(rows))
        if statement is not None:
            self._line.send(statement, self._queries.listed(columns, self._queries.latest(query, columns, rows)))
        else:
            for row in rows:
                self._line.send(self._queries.of_one(query), dict(zip(columns, row, strict=True)))

    def claim(self, queue: str, place: Place, slots: Slots, now: int) -> list[Row]:
        until, untils = _common(slots.untils)
        consumer, consumers = _common(slots.consumers)
        actor, actors = _common(slots.actors)
        values: dict[str, Any] = {"actor": actor, "actors": actors} if slots.is_audited else {}
        queries = ("claim_ready", "claim_ready_audited", "claim_ready_audited_in_runs")
        if slots.share is not None:
            queries = ("claim_share", "claim_share_audited", "claim_share_audited_in_runs")
            values |= {"index": slots.share[0], "count": slots.share[1], "width": width(slots.share, len(slots.tokens))}
        return self.rows(
            queries[_way(slots.is_audited, len(slots.tokens))],
            queue=queue,
            ranking=place[0],
            position=place[1],
            limit=len(slots.tokens),
            tokens=Numbers(slots.tokens),
            until=until,
            untils=untils and Numbers(untils),
            consumer=consumer,
            consumers=consumers,
            is_counted=slots.is_counted,
            is_all_or_none=slots.is_all_or_none,
            now=now,
            mark=slots.mark,
            has_deadline=HAS_DEADLINE,
            **values,
        )

    def ack_all(self, acks: Acks) -> set[int] | None:
        self.has_written = True
        queries = ("ack_all", "ack_all_audited", "ack_all_audited_in_runs")
        rows = self.rows(queries[_way(bool(acks.audited), len(acks.seqs))], **_values(acks))
        self._learn_xid(rows)
        count, tokens, _ = rows[0]
        return None if count == len(acks.seqs) else set(tokens or ())

    def ack_each(self, acks: Acks) -> list[Row]:
        self.has_written = True
        queries = ("ack_each", "ack_each_audited", "ack_each_audited_in_runs")
        return self.rows(queries[_way(bool(acks.audited), len(acks.seqs))], **_values(acks))

    def slowly(self, function: Callable[[], T]) -> T:
        return greenlet_bridge.slowly(function)

    def elsewhere_ms(self) -> int:
        return greenlet_bridge.others_ms()

    def draw_seqs(self, count: int) -> int:
        rows = self.rows("draw_seqs", count=count)
        self._learn_xid(rows)
        return int(rows[0][0])

    def read_xid(self) -> None:
        """Called before the commit is sent, because its answer may be lost."""
        self._learn_xid(self.rows("read_xid"))

    def stream(self, query: str, /, **values: Any) -> Iterator[Row]:
        self._line.send(self._queries.streaming(query), values)
        while rows := self.rows("fetch_stream"):
            yield from rows
        self.write("close_stream")

    def install(self, statements: Sequence[str]) -> None:
        for text in statements:
            self._line.send(Statement(text, (), text), {})

    def _learn_xid(self, rows: list[Row]) -> None:
        """The last value of the first row, as raw bytes."""
        if rows and rows[0][-1] is not None:
            self.xid = int.from_bytes(rows[0][-1], "big")


def _way(is_audited: bool, lines: int) -> int:
    """Without an audit, line by line, or in runs."""
    return 0 if not is_audited else 1 if lines < FEW else 2


def _common(values: list[Any]) -> tuple[Any, list[Any] | None]:
    """The common value if all are the same, as they usually are; otherwise the list."""
    first = values[0] if values else None
    return (first, None) if values.count(first) == len(values) else (None, values)


def _values(acks: Acks) -> dict[str, Any]:
    return {
        "seqs": Numbers(acks.seqs),
        "tokens": Numbers(acks.tokens),
        "queues": acks.queues,
        "audited": acks.audited,
        "now": acks.now,
        "actor": acks.actor,
        "harmless": HARMLESS,
    }
