"""The messages of a stream's batch as Arrow: all of them, in order, or an error."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import rowq
from rowq import Broker
from rowq.spark.ledger import Ledger, open_ledger
from rowq.spark.tables import PLACE_COLUMNS, SCHEMAS, Tabular


@pytest.fixture
def ledger(broker: Broker, url: str) -> Iterator[Ledger]:
    with open_ledger(url) as ledger:
        yield ledger


def test_a_batch_is_read_in_the_order_of_its_places(broker: Broker, ledger: Ledger, tabular: Tabular) -> None:
    broker.send_many("q", [{"n": n} for n in range(20)])
    broker.send("q", b"\xff", headers={"a": "b"}, key="k")
    held = ledger.claim("s", ["q"])
    batch = ledger.take("s", held.epoch, held.acked, 100)
    rows = []
    for piece in ledger.slices("s", held.acked, batch, parts=4):
        for given in tabular.read_slice(piece):
            assert given.schema.names == [*SCHEMAS["messages"].names, *PLACE_COLUMNS.names]
            given.validate(full=True)
            rows += given.to_pylist()
    assert [row["_place"] for row in rows] == list(range(1, 22))
    assert {(row["_stream"], row["_batch"], row["state"], row["consumer"]) for row in rows} == {("s", batch, "leased", "stream:s")}
    assert [row["payload_text"] for row in rows] == [*[f'{{"n":{n}}}' for n in range(20)], None]
    assert rows[-1]["payload"] == b"\xff" and rows[-1]["headers"] == '{"a":"b"}'
    (piece,) = ledger.slices("s", held.acked, batch, parts=1)
    (few,) = tabular.read_slice(piece, columns=["_place", "id"])
    assert few.schema.names == ["_place", "id"] and few.num_rows == 21


def test_quarantined_messages_are_left_out_and_not_missed(broker: Broker, ledger: Ledger, tabular: Tabular) -> None:
    ids = broker.send_many("q", range(5))
    held = ledger.claim("s", ["q"])
    batch = ledger.take("s", held.epoch, held.acked, 100)
    ledger.quarantine("s", batch, [ids[2]], "poison")
    rows = [
        row for piece in ledger.slices("s", held.acked, batch, parts=2) for given in tabular.read_slice(piece) for row in given.to_pylist()
    ]
    assert [row["id"] for row in rows] == [id for id in ids if id != ids[2]]


def test_a_batch_that_is_not_whole_any_more_is_no_batch(broker: Broker, ledger: Ledger, tabular: Tabular) -> None:
    broker.send_many("q", range(5))
    held = ledger.claim("s", ["q"])
    batch = ledger.take("s", held.epoch, held.acked, 100)
    (piece,) = ledger.slices("s", held.acked, batch, parts=1)
    ledger.ack("s", held.epoch, batch)
    with pytest.raises(rowq.LeaseLost):
        list(tabular.read_slice(piece))


def test_a_revoked_stream_gives_nothing(broker: Broker, ledger: Ledger, tabular: Tabular) -> None:
    broker.send_many("q", range(5))
    held = ledger.claim("s", ["q"])
    batch = ledger.take("s", held.epoch, held.acked, 100)
    (piece,) = ledger.slices("s", held.acked, batch, parts=1)
    ledger.revoke("s")
    with pytest.raises((rowq.LeaseLost, rowq.StreamRevoked)):
        list(tabular.read_slice(piece))
