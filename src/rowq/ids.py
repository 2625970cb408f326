"""Public ids and receipts: a UUIDv7 that carries the message's seq, and that id with the token of one lease.

    0190163d-8694-7000-8000-00000000002a            ms of sending (48 bits) · version · variant · seq (62 bits)
    0190163d-8694-7000-8000-00000000002a.1f0c…      the same, a dot, and 16 hex digits of lease token

An id sorts by time of sending, is unique in its database, and is found by primary key without a second index.
"""

from __future__ import annotations

import os
import re
import struct
from contextlib import suppress
from typing import NamedTuple

from rowq.errors import InvalidReceipt

MAX_SEQ = (1 << 62) - 1
SMALL_SEQ = 1 << 48
_VARIANT = 0x8 << 60
_USUAL_VARIANT = "-8000-"
_ID = re.compile(r"([0-9a-f]{8})-([0-9a-f]{4})-7000-([89ab][0-9a-f]{3})-([0-9a-f]{12})")
_RECEIPT = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7000-([89ab][0-9a-f]{3})-([0-9a-f]{12})\.([0-7][0-9a-f]{15})")


_STOCK = 64
_spare_tokens: list[int] = []
"""Asking the system for randomness costs as much as a query; so a little is kept in stock. `list.pop` is atomic."""

os.register_at_fork(after_in_child=_spare_tokens.clear)


class Origin(NamedTuple):
    """What an id says about its message."""

    seq: int
    sent_at: int


Receipt = tuple[int, int]
"""(seq, token): the proof of one lease. It names the message by seq even when the caller brought an id of its own."""

NO_RECEIPT: Receipt = (-1, -1)
"""The receipt of nothing."""


def message_id(seq: int, sent_at: int) -> str:
    millis = f"{sent_at:012x}"
    if seq < SMALL_SEQ:
        return f"{millis[:8]}-{millis[8:]}-7000-8000-{seq:012x}"
    low = f"{_VARIANT | seq:016x}"
    return f"{millis[:8]}-{millis[8:]}-7000-{low[:4]}-{low[4:]}"


def message_ids(first: int, count: int, sent_at: int) -> list[str]:
    """The ids of messages that were sent together."""
    if first + count >= SMALL_SEQ:
        return [message_id(seq, sent_at) for seq in range(first, first + count)]
    stem = message_id(0, sent_at)[:-12]
    return [f"{stem}{seq:012x}" for seq in range(first, first + count)]


def origin_of(id: str) -> Origin | None:
    """The seq and time inside an id of ours; None for any other text."""
    match = _ID.fullmatch(id)
    if match is None:
        return None
    high, mid, variant, low = match.groups()
    return Origin(int(variant + low, 16) & MAX_SEQ, int(high + mid, 16))


def new_tokens(count: int) -> list[int]:
    """63 random bits each. Never a counter: after a power cut a counter repeats, and a stale receipt would fit again."""
    if count == 1 and _spare_tokens:
        with suppress(IndexError):  # another thread was quicker
            return [_spare_tokens.pop()]
    drawn = count if count > 1 else _STOCK
    fresh = [bits >> 1 for bits in struct.unpack(f"{drawn}Q", os.urandom(8 * drawn))]
    _spare_tokens.extend(fresh[count:])
    return fresh[:count]


def receipt_of_delivery(text: str) -> Receipt:
    """The receipt of a delivery that we made ourselves: read without looking twice."""
    if text[18:24] == _USUAL_VARIANT:
        try:
            return (int(text[24:36], 16), int(text[37:], 16))
        except ValueError:
            pass
    return read_receipt(text)


def read_receipt(text: str) -> Receipt:
    match = _RECEIPT.fullmatch(text)
    if match is None:
        raise InvalidReceipt("this is no receipt: pass a delivery, or its receipt exactly as it was received")
    return (int(match[1] + match[2], 16) & MAX_SEQ, int(match[3], 16))
