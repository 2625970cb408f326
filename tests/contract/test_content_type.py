"""A content type travels as a header."""

from __future__ import annotations

from rowq import Broker


def test_a_content_type_is_delivered_as_a_header(broker: Broker) -> None:
    broker.send("files", b"%PDF", content_type="application/pdf", headers={"name": "a"})
    assert broker.receive("files")[0].headers == {"name": "a", "content-type": "application/pdf"}
