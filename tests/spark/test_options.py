"""What may be said to `format("rowq")`, and what is refused with which words. Without a JVM."""

from __future__ import annotations

import platform
from typing import Any

import pytest

from rowq import InvalidArgument
from rowq.spark.options import OPTIONS, Given
from rowq.spark.request import Address, Queues, to_address, to_lease, to_log, to_read, to_write

URL = "postgresql://db/jobs"
LEASE = {"url": URL, "queue": "orders", "streamId": "billing"}


def given(**options: str) -> Given:
    return Given(options)


def test_names_of_options_are_taken_in_any_case() -> None:
    assert to_lease(Given({"URL": URL, "QUEUE": "orders", "streamid": "billing", "MAXMESSAGESPERTRIGGER": "7"})).most == 7


def test_what_is_not_said_has_its_usual_value() -> None:
    asked = to_lease(given(**LEASE))
    assert (asked.most, asked.most_bytes, asked.least, asked.delay_ms) == (10_000, None, None, 900_000)
    assert (asked.poll_ms, asked.beat_ms, asked.timeout_ms, asked.fails_on_loss) == (500, 10_000, None, True)


def test_a_name_that_other_connectors_use_means_ours() -> None:
    assert to_lease(given(**LEASE, partitionBy="batch")).order == "batch"
    asked = to_write(given(url=URL, queue="orders", dedupeKeyColumn="number", batchSize="500"), ["payload", "number"])
    assert (asked.mapping.key, asked.rows) == ("number", 500)


def test_every_default_can_be_read() -> None:
    for option in OPTIONS:
        assert option.default is None or given()[option.name] == option.parse(option.default)


def test_options_of_spark_itself_are_let_through() -> None:
    Given({**LEASE, "checkpointLocation": "/tmp/x", "queryName": "q"})  # noqa: S108


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"quue": "a"}, "unknown option quue: did you mean queue?"),
        ({"zzz": "a"}, "unknown option zzz: docs/reference/spark.md lists all"),
        ({"path": "orders"}, "take no path here: name the queue with option queue"),
        ({"maxMessagesPerTrigger": "0"}, "option maxMessagesPerTrigger: '0' is not valid; it takes a whole number, 1 or more"),
        ({"maxMessagesPerTrigger": "many"}, "'many' is not valid"),
        ({"maxBytesPerTrigger": "10 apples"}, "it takes bytes, such as 1048576, 64k, 10mb or 1g"),
        ({"maxTriggerDelay": "soon"}, "it takes a duration such as 500ms, 10s, 15m or 2h; at most 366d"),
        ({"maxTriggerDelay": "400d"}, "'400d' is not valid"),
        ({"pollInterval": "1ms"}, "it takes a duration of at least 10ms"),
        ({"startingTimestamp": "yesterday"}, "it takes a moment such as 2026-07-01T12:00:00Z"),
        ({"startingPosition": "first"}, "it takes earliest, latest, or the number of a row"),
        ({"table": "dlq"}, "it takes one of messages, dead, history, audit"),
        ({"states": "ready,gone"}, "it takes some of ready, scheduled"),
        ({"includeHeaders": "yes"}, "it takes true or false"),
        ({"queuePattern": "("}, "it takes a regular expression"),
        ({"queues": "a,,b"}, "it takes names separated by commas"),
        ({"streamId": "two words"}, "it takes a name of up to 100 letters"),
        ({"where": "reason"}, "it takes name=value"),
        ({"partitionBy": "customer"}, "option preserveOrder: 'customer' is not valid; it takes one of group, batch"),
        ({"keyColumn": "a", "dedupeKeyColumn": "a"}, "option keyColumn is given twice, under both of its names"),
        ({"prefetchBatches": "-1"}, "it takes a whole number, 0 or more"),
        ({"batchSize": "0"}, "it takes a whole number, 1 or more"),
        ({"deliveryMode": "twice"}, "it takes one of exactly_once, direct"),
    ],
)
def test_a_value_that_will_not_do_is_named_with_what_would(options: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        Given(options)
    assert words in str(caught.value)


def test_a_url_is_never_shown() -> None:
    with pytest.raises(InvalidArgument, match="option url") as caught:
        to_read(given(url="oracle://scott:tiger@db/x", queue="a"))
    assert "tiger" not in str(caught.value)
    with pytest.raises(InvalidArgument, match="option url: this is not valid"):
        given(url="")


@pytest.mark.parametrize(
    ("text", "ms"), [("500ms", 500), ("10s", 10_000), ("1.5s", 1_500), ("15m", 900_000), ("2h", 7_200_000), ("3", 3_000), ("0.25", 250)]
)
def test_durations_have_a_unit_or_are_seconds(text: str, ms: int) -> None:
    assert given(maxTriggerDelay=text)["maxTriggerDelay"] == ms


@pytest.mark.parametrize(("text", "size"), [("1000", 1000), ("64k", 65_536), ("10mb", 10 << 20), ("1 G", 1 << 30)])
def test_sizes_have_a_unit_or_are_bytes(text: str, size: int) -> None:
    assert given(maxBytesPerTrigger=text)["maxBytesPerTrigger"] == size


@pytest.mark.parametrize("text", ["1782907200000", "2026-07-01T12:00:00Z", "2026-07-01 12:00", "2026-07-01T14:00:00+02:00"])
def test_a_moment_is_utc_unless_it_says_otherwise(text: str) -> None:
    assert given(startingTimestamp=text)["startingTimestamp"] == 1_782_907_200_000


@pytest.mark.parametrize(
    ("make", "options", "words"),
    [
        (to_read, {"queue": "a"}, "option url is missing: where the queues are"),
        (to_read, {"url": "http://localhost:8080"}, "Spark reads the tables themselves, not a server"),
        (to_read, {"url": URL, "queue": "a", "queues": "a,b"}, "options queue and queues contradict each other"),
        (to_read, {"url": URL, "streamId": "a"}, "option streamId has no meaning for a batch read: it is for a stream with mode=lease"),
        (to_read, {"url": URL, "table": "audit", "states": "ready"}, "only messages have several states, and table is audit"),
        (to_read, {"url": URL, "startingPosition": "latest"}, "has nothing to read"),
        (to_read, {"url": URL, "startingPosition": "9", "endingPosition": "8"}, "startingPosition is above endingPosition (9 > 8)"),
        (to_read, {"url": URL, "startingTimestamp": "9", "endingTimestamp": "8"}, "startingTimestamp is above endingTimestamp (9 > 8)"),
        (to_read, {"url": URL, "startingPosition": "9", "startingTimestamp": "8"}, "startingPosition and startingTimestamp contradict"),
        (to_lease, {"url": URL, "queue": "a"}, "option streamId is missing: a name for this consumer"),
        (to_lease, {"url": URL, "streamId": "a"}, "name its queues with option queue, queues or queuePattern"),
        (to_lease, {**LEASE, "table": "dead"}, "option table has no meaning for a stream with mode=lease"),
        (to_lease, {**LEASE, "minMessagesPerTrigger": "10001"}, "no batch could be that large"),
        (to_lease, {**LEASE, "minMessagesPerTrigger": "5", "prefetchBatches": "1"}, "prefetchBatches and minMessagesPerTrigger contradict"),
        (to_lease, {**LEASE, "streamTimeout": "20s"}, "at least three times heartbeatInterval"),
        (to_log, {"url": URL, "mode": "log", "table": "dead"}, "follows history or audit, not dead"),
        (to_log, {"url": URL, "mode": "log", "streamId": "a"}, "option streamId has no meaning for a stream with mode=log"),
        (to_log, {"url": URL, "mode": "log", "endingPosition": "9"}, "it is for a batch read"),
    ],
)
def test_what_does_not_fit_together_is_refused(make: Any, options: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        make(Given(options))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"url": URL}, "option queue is missing: name the queue to send to"),
        ({"url": URL, "queue": "a", "queueColumn": "to"}, "options queue and queueColumn contradict each other"),
        ({"url": URL, "queue": "a", "keyColumn": "k"}, "option keyColumn: there is no column k in the DataFrame, which has payload, to"),
        ({"url": URL, "queue": "a", "payloadColumn": "body"}, "option payloadColumn: there is no column body"),
        ({"url": URL, "queue": "a", "txnAppId": "nightly"}, "options txnAppId and txnVersion belong together"),
        ({"url": URL, "queue": "a", "deliveryMode": "direct", "sinkId": "s"}, "without txnAppId, txnVersion or sinkId"),
        ({"url": URL, "queue": "a", "batchSize": "1000001"}, "one transaction writes up to 1000000 rows"),
        ({"url": URL, "queue": "a", "table": "dead"}, "option table has no meaning for a write"),
    ],
)
def test_a_write_that_cannot_be_meant_is_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        to_write(Given(options), ["payload", "to"])
    assert words in str(caught.value)


def test_a_write_names_the_columns_that_it_takes() -> None:
    asked = to_write(Given({"url": URL, "queueColumn": "to", "txnAppId": "nightly", "txnVersion": "3"}), ["payload", "to"])
    assert (asked.mapping.payload, asked.mapping.queue_column, asked.mapping.queue) == ("payload", "to", None)
    assert asked.transaction == ("nightly", 3)


def test_reading_without_a_queue_means_all_of_them() -> None:
    assert to_read(given(url=URL)).queues == Queues()
    assert Queues().resolve(Address(URL)) is None
    assert to_read(given(url=URL, queues="a, b,a")).queues == Queues(("a", "b"))


def test_credentials_stay_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    address = to_address("postgresql://db:5433/jobs?sslmode=require", "ROWQ_LOGIN")
    assert "secret" not in repr(address)
    monkeypatch.setenv("ROWQ_LOGIN", "ada:sec:ret/")
    assert address.url() == "postgresql://ada:sec%3Aret%2F@db:5433/jobs?sslmode=require"
    monkeypatch.setenv("ROWQ_LOGIN", "only-a-password")
    assert to_address("postgresql://ada@db/jobs", "ROWQ_LOGIN").url() == "postgresql://ada:only-a-password@db/jobs"
    monkeypatch.delenv("ROWQ_LOGIN")
    with pytest.raises(InvalidArgument, match=r"has no ROWQ_LOGIN; set it to user:password .*spark\.executorEnv\.ROWQ_LOGIN"):
        address.url()


def test_a_file_is_named_by_its_whole_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.chdir(tmp_path)
    assert to_address("sqlite:///jobs.db?timeout=5", None).url() == f"sqlite:///{tmp_path}/jobs.db?timeout=5"


def test_a_file_is_refused_on_another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    address = to_address("sqlite:////var/lib/jobs.db", None)
    monkeypatch.setattr(platform, "node", lambda: "worker-7")
    with pytest.raises(InvalidArgument, match=r"this task runs on worker-7: use a local master, or keep the queues in PostgreSQL"):
        address.url()
