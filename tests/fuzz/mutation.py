"""Input that is nearly sound: seeds with pieces cut out, doubled, or swapped for what often breaks a decoder, or for anything at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random

BREAKERS: tuple[bytes, ...] = (
    *(b"\0", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\r\n", b"\n", b" ", b"%00", b"%", b"\\ud800", b"\\u0000"),
    *(b"-1", b"0", b"1e400", b"NaN", b"9223372036854775808", b"9" * 30, b"9" * 5_000, b"0x10", "٣".encode()),
    *(b"null", b"true", b"{}", b"[]", b'""', b"[" * 2_000, b'{"a":' * 2_000, b"(" * 200, b"a{9999999999}"),
    *(b"-", b".", b"..", b"/", b":", b"=", b"&", b"*", b",", b'"', b"'", b"://[", b"\xf0\x9f\x90\x87", b"2001-99-99", b"!!int ''"),
)


def inputs(seeds: Sequence[bytes], random: Random) -> Iterator[bytes]:
    """Without end: seeds that were changed in one to four places, and now and then no seed at all."""
    while True:
        if random.random() < 0.1:
            yield random.randbytes(random.randrange(200))
            continue
        data = random.choice(seeds)
        for _ in range(random.randint(1, 4)):
            start = random.randint(0, len(data))
            end = min(len(data), start + random.choice((0, 0, 1, 2, 5, 20)))
            piece = random.choice((b"", data[start:end] * 2, random.randbytes(random.randint(1, 4)), random.choice(BREAKERS)))
            data = data[:start] + piece + data[end:]
        yield data


def smallest(data: bytes, fails: Callable[[bytes], bool]) -> bytes:
    """What is left of an input that fails when no piece of it can be left out."""
    size = len(data) // 2
    while size:
        start = 0
        while start < len(data):
            shorter = data[:start] + data[start + size :]
            if fails(shorter):
                data = shorter
            else:
                start += size
        size //= 2
    return data
