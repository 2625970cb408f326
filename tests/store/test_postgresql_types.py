"""How values go down the wire to PostgreSQL."""

from __future__ import annotations

import struct
import tracemalloc

import pytest

from rowq.store.postgresql.types import Numbers, wired


@pytest.mark.parametrize("count", [0, 1, 2, 255, 256, 257, 512, 1_000, 3_001])
def test_a_list_of_numbers_is_an_array_whatever_its_length(count: int) -> None:
    values = [number * 7_919 - 5 for number in range(count)]
    expected = struct.pack(">iiiii", 1, 0, 20, count, 1) + b"".join(struct.pack(">iq", 8, value) for value in values)
    assert wired(Numbers(values)) == (1016, expected)


def test_lists_of_all_lengths_leave_little_behind() -> None:
    """Transactions come in every size, and a server runs for months."""
    tracemalloc.start()
    try:
        for count in range(1, 2_000, 9):
            wired(Numbers(range(count)))
        assert tracemalloc.get_traced_memory()[0] < 4_000_000
    finally:
        tracemalloc.stop()
