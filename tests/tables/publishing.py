"""A process that puts messages down and publishes them.

python -m tests.tables.publishing URL once WRITER VERSION COUNT WHEN     WHEN: go, or wait (for a line on stdin before publishing)
python -m tests.tables.publishing URL series WRITER VERSIONS COUNT       one version after another, from the first one on
python -m tests.tables.publishing URL keyed WRITER VERSIONS COUNT        the same with keys, in an order that is this process's own
"""

from __future__ import annotations

import random
import sys
import uuid

import pyarrow as pa

from rowq.spark.publish import Mapping, Publisher, open_publisher
from tests.rivals.process import say


def publish(publisher: Publisher, writer: str, version: int, batch: pa.RecordBatch, mapping: Mapping, *, waits: bool = False) -> None:
    stage = str(uuid.uuid4())
    count = publisher.stage(stage, [batch], mapping)
    say("staged", stage, count)
    if waits:
        sys.stdin.readline()
    say("published", publisher.publish(writer, version, [(stage, count)]))


def numbered(writer: str, version: int, count: int) -> pa.RecordBatch:
    return pa.record_batch({"payload": [f'"{writer}-{version}-{number}"' for number in range(count)]})


def keyed(writer: str, count: int) -> pa.RecordBatch:
    keys = [f"k{number}" for number in range(count)]
    random.Random(writer).shuffle(keys)
    return pa.record_batch({"payload": [f'"{key}"' for key in keys], "key": keys})


def main(url: str, part: str, writer: str, number: int, count: int, when: str = "go") -> None:
    with open_publisher(url) as publisher:
        if part == "once":
            publish(publisher, writer, number, numbered(writer, number, count), Mapping(queue="q"), waits=when == "wait")
        for version in range(number) if part == "series" else ():
            publish(publisher, writer, version, numbered(writer, version, count), Mapping(queue="q"))
        for version in range(number) if part == "keyed" else ():
            publish(publisher, writer, version, keyed(writer, count), Mapping(queue="q", key="key"))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), *sys.argv[6:])
