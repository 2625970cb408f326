"""Ids and receipts: what is written is read again, and nothing else is."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowq.errors import InvalidReceipt
from rowq.ids import MAX_SEQ, Origin, message_id, new_tokens, origin_of, read_receipt

seqs = st.one_of(st.integers(0, MAX_SEQ), st.sampled_from([0, 1, (1 << 48) - 1, 1 << 48, MAX_SEQ]))
times = st.integers(0, (1 << 48) - 1)
tokens = st.integers(0, (1 << 63) - 1)

RECEIPT = "0190163d-8694-7000-8000-00000000002a.1f0c000000000001"


@given(seq=seqs, sent_at=times)
def test_an_id_is_a_uuid_of_version_7_that_carries_seq_and_time(seq: int, sent_at: int) -> None:
    id = message_id(seq, sent_at)
    parsed = uuid.UUID(id)
    assert (str(parsed), parsed.version, parsed.variant) == (id, 7, uuid.RFC_4122)
    assert parsed.int >> 80 == sent_at
    assert origin_of(id) == Origin(seq, sent_at)


@given(first=st.tuples(times, seqs), second=st.tuples(times, seqs))
def test_ids_sort_by_time_and_then_by_seq(first: tuple[int, int], second: tuple[int, int]) -> None:
    ids = [message_id(seq, sent_at) for sent_at, seq in (first, second)]
    assert (ids[0] < ids[1]) == (first < second)


@pytest.mark.parametrize(
    "text", ["", "x", "3996ec4c-c0a2-4787-9e08-d34e282570e8", RECEIPT, RECEIPT[:36].upper(), RECEIPT[:36] + "\n", "ü" * 36, "٣" * 36]
)
def test_other_text_is_no_id_of_ours(text: str) -> None:
    assert origin_of(text) is None


@given(st.text())
def test_arbitrary_text_is_no_receipt(text: str) -> None:
    origin_of(text)
    with pytest.raises(InvalidReceipt):
        read_receipt(text)


@given(seq=seqs, sent_at=times, token=tokens)
def test_a_receipt_is_read_as_it_was_written(seq: int, sent_at: int, token: int) -> None:
    assert read_receipt(f"{message_id(seq, sent_at)}.{token:016x}") == (seq, token)


SPOILT = [
    "",
    RECEIPT[:36],
    RECEIPT[:-1],
    RECEIPT + "0",
    RECEIPT.upper(),
    f" {RECEIPT}",
    f"{RECEIPT}\n",
    RECEIPT.replace(".1", ".f"),
    RECEIPT.replace(".", ":"),
]


@pytest.mark.parametrize("text", SPOILT)
def test_a_spoilt_receipt_is_none(text: str) -> None:
    with pytest.raises(InvalidReceipt, match="not a receipt"):
        read_receipt(text)


def test_tokens_are_63_random_bits() -> None:
    drawn = [*new_tokens(500), *new_tokens(500)]
    assert len(set(drawn)) == 1_000
    assert all(0 <= token < 1 << 63 for token in drawn)
    assert max(drawn) > 1 << 61
