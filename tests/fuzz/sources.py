"""What is read from files, arguments and the environment: configurations, manifests, URLs, lines to load, options of Spark, lakes."""

from __future__ import annotations

import atexit
import io
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import pyarrow as pa

from rowq.cli import files
from rowq.cli import parameter as of_command
from rowq.cli.receipts import _receipt_of
from rowq.client.address import Address
from rowq.connect import _dialect, _is_remote
from rowq.model.draft import prepare, with_delay
from rowq.model.mapping import Drafting, Mapping
from rowq.model.message import Message, State
from rowq.server import config
from rowq.server.compat import registry
from rowq.server.compat.keyval.manifest import read_manifest
from rowq.spark import request
from rowq.spark.options import OPTIONS, Given
from rowq.spark.pipeline.manifest import Manifest, open_storage
from rowq.spark.pipeline.replaying import Choice
from rowq.store.notify.redis_connection import check_redis_url
from rowq.transfer import line
from tests.fuzz.target import refusing, target, text_target

_FOLDER = Path(tempfile.mkdtemp(prefix="rowq-fuzz-"))
atexit.register(shutil.rmtree, _FOLDER, ignore_errors=True)


def _file(name: str, data: bytes) -> Path:
    path = _FOLDER / name
    path.write_bytes(data)
    return path


@target("queue:\n  lockDuration: 30000\n  cleanupInterval: 60000\nother: [1, {a: b}]\n", "a: 2001-01-01\nqueue: null\n", "&a [*a]", "")
def manifests(data: bytes) -> None:
    with refusing():
        read_manifest(str(_file("manifest.yaml", data)))
    with refusing():
        read_manifest(os.fsdecode(data[:200]) or "nothing")


@target(
    '[server]\nport = 9000\nurl = "sqlite:///a.db"\n[[server.keys]]\nname = "a"\nscopes = ["send"]\nsecret = "s"\n',
    '[server.defaults]\nlease_ms = 1000\nbackoff_ms = [1, 2]\nschema = {type = "object"}\n',
    '[compat.forq]\nqueue_ttl_hours = 5\n[compat.keyval]\nqueue = "kv"\n[compat.queueti]\ndelete_reaper_schedule = "@daily"\n',
)
def configurations(data: bytes) -> None:
    with refusing():
        config.load({}, {}, file=_file("rowq.toml", data))


@text_target(
    "ROWQ_PORT=9000",
    'ROWQ_API_KEYS=[{"name":"a","scopes":["send"],"secret":"s"}]',
    'ROWQ_DEFAULTS={"lease_ms":1}',
    "FORQ_API_ADDR=[::1]:8080\nFORQ_QUEUE_TTL_HOURS=5\nFORQ_DB_PATH=a b.db",
    "ROWQ_URL=http://[\nROWQ_COMPAT=forq,none",
    "ROWQ_API_KEY=secret\nROWQ_CONFIG=x",
)
def environments(text: str) -> None:
    pairs = (pair.partition("=") for pair in text.replace("\0", "").split("\n"))
    with refusing():
        config.load({}, {name: value for name, _, value in pairs}, folder=_FOLDER / "empty")
    with refusing():
        registry.chosen(text)


@text_target(
    "http://name:secret@host:8080/path?timeout=5",
    "https://[::1]:80",
    "http://ä.example",
    "postgresql://user:p%40ss@host:5432/db?schema=a&sslmode=require",
    "mariadb://user@host/db?unix_socket=/run/x",
    "redis://:secret@host:6379/0?x=1",
)
def urls(text: str) -> None:
    if _is_remote(text):
        for secret in (None, "secret"):
            with refusing():
                Address(text, secret)
    elif not text.lower().startswith("sqlite"):  # which would make a file
        with refusing():
            _dialect(text, None).close()
    with refusing():
        check_redis_url(text)
    with refusing():
        open_storage(text)


@target(
    '{"queue":"q","id":"a","payload":1,"delay_ms":5,"ttl_ms":1,"deadline_ms":1,"backoff_ms":[1],"headers":{"a":"b"}}\n{"payload":2}\r\n',
    '{"payload_base64":"AAEC","backoff":{"kind":"linear","step_ms":1},"keys_if_undelivered":["a",["b",1]],"state":"dead","attempts":3}',
    '{"payload":3,"at_ms":5000}',
    '"raw"\nnull\n\n',
)
def lines(data: bytes) -> None:
    """What dump writes of a message that was loaded, load reads again as the same."""
    for arrival in files.arrivals(io.BufferedReader(io.BytesIO(data))):
        for each in arrival.lines:
            for how in ({"raw": True}, {"text": True}, {"keep_ids": True}, {"need_ids": True}):
                with refusing():
                    queue, draft = line.reader(**how)(each)
                    prepared = with_delay(prepare("q", draft), 0)
                    written = msgspec.json.encode(line.to_line(_as_sent(queue, draft, prepared), 0))
                    _, again = line.reader(keep_ids=draft.id is not None)(written)
                    assert prepare("q", again) == prepared
            with refusing():
                _receipt_of(each)
    with refusing():
        of_command.headers([data.decode("utf-8", "surrogateescape")])


def _as_sent(queue: str | None, draft: Any, prepared: Any) -> Message:
    """As it would be looked at later."""
    return Message(
        id=draft.id or "none",
        queue=queue or "q",
        state=State.READY,
        payload=draft.payload,
        headers=dict(draft.headers or {}),
        priority=draft.priority,
        attempts=0,
        sent_at=0,
        key=draft.key,
        group=draft.group,
        due_at=prepared.delay_ms or None,
        ttl_ms=prepared.ttl_ms,
        deadline=prepared.deadline_ms,
        max_attempts=draft.max_attempts,
        backoff=draft.backoff,
        keys_if_undelivered=None if prepared.kv_keys is None else msgspec.json.decode(prepared.kv_keys),
    )


@text_target(
    "url=postgresql://u@h/d\nqueue=orders\nminPartitions=2",
    "url=sqlite:///a.db\nqueuePattern=a.*\nstreamId=s\nmaxBytesPerTrigger=10mb\nstreamTimeout=never\npollInterval=500ms",
    "url=sqlite:///a.db\nmode=log\ntable=audit\nstartingTimestamp=2026-07-01T12:00:00Z\ncolumns=id, at",
    "url=mysql://h/d\nqueueColumn=queue\npayloadAs=text\ntxnAppId=a\ntxnVersion=3\nbatchSize=10",
    "where=a=b;c=d\nstates=ready,dead\nstartingPosition=latest",
)
def spark_options(text: str) -> None:
    pairs = [pair.partition("=") for pair in text.split("\n")]
    purposes: tuple[Callable[[Given], Any], ...] = (
        request.to_read,
        request.to_lease,
        request.to_log,
        lambda given: request.to_write(given, ["payload", "queue"]),
    )
    for purpose in purposes:
        with refusing(), warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            purpose(Given({name: value for name, _, value in pairs}))
    for option in OPTIONS:
        with refusing(), warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            Given({option.name: text})
    with refusing(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of what a pattern may mean in a Python to come
        Choice(queue="q", error=text)


@target(
    '{"version":1,"lake":"a","identity":5,"at":1,"action":"made","add":[{"name":"audit/date=2026-01-01/a.parquet","rows":1,"size":2}]}',
    '{"version":1,"format":1,"lake":"a","identity":5,"at":1,"action":"archived","segment":{"kind":"audit","number":1,"first":1,"last":2,"rows":2}}',
)
def lakes(data: bytes) -> None:
    class Storage:
        """One version, whose bytes are anybody's guess."""

        def names(self, folder: str) -> list[str]:
            return ["00000000000000000001.json"]

        def read(self, name: str) -> bytes:
            return data

        def __getattr__(self, name: str) -> NoReturn:
            raise AssertionError(f"a snapshot only reads, and does not {name}")

    with refusing():
        snapshot = Manifest(Storage()).snapshot()  # type: ignore[arg-type]
        assert snapshot is not None
        snapshot.files_of("audit"), snapshot.last_segment("audit")


@text_target('{"a":1}\n{"h":"v"}\norders', "text\nnull\nq", '{"a":\n[1\n\u00e4')
def columns(text: str) -> None:
    """Rows of a table as messages."""
    payload, _, rest = text.encode("utf-8", "replace").decode().partition("\n")
    headers, _, queue = rest.partition("\n")
    batch = pa.RecordBatch.from_pydict(
        {"payload": [payload], "raw": [payload.encode()], "headers": [headers], "queue": [queue], "key": [queue]}
    )
    for column in ("payload", "raw"):
        for kind in ("auto", "json", "text", "bytes"):
            with refusing():
                Drafting(Mapping(queue_column="queue", payload=column, payload_as=kind, headers="headers", key="key")).messages(batch)
    with refusing():
        Drafting(Mapping(queue="q", payload="raw", format="key", id="headers")).messages(batch)
