"""What the workers of a server share: a few numbers and pages in shared memory, and a datagram socket each.

It is created before the workers are forked, and vanishes with the last of them: there is no file. Every worker writes only to its own
slots, so there are no locks.
"""

from __future__ import annotations

import mmap
import socket
import struct
from zlib import crc32

PAGE_BYTES = 2 << 20
"""A thousand queues with all their counters fill less than half of it. Only written pages take up memory."""

_NUMBER = struct.Struct("q")
_HEAD = struct.Struct("qq")


class WorkerState:
    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.counted = [Page() for _ in range(workers)]
        self.gone = [Page() for _ in range(workers)]
        self.boxes = [Box() for _ in range(workers)]
        numbers = memoryview(mmap.mmap(-1, (3 * workers + 1) * _NUMBER.size)).cast("q")
        self._connections = numbers[:workers]
        self._waiting = numbers[workers : 2 * workers]
        self._streams = numbers[2 * workers : -1]
        self._shut = numbers[-1:]

    def close(self) -> None:
        for box in self.boxes:
            box.close()

    def leave(self, worker: int) -> None:
        """The worker has ended. Its counts stay."""
        self._connections[worker] = self._waiting[worker] = self._streams[worker] = 0

    def note_waiting(self, worker: int, count: int) -> None:
        """How many consumers wait for messages at this worker."""
        self._waiting[worker] = count

    def waiting_elsewhere(self, worker: int) -> int:
        return sum(self._waiting) - self._waiting[worker]

    def note_connections(self, worker: int, count: int) -> int:
        """How many clients are connected to this worker; returns the total of all workers."""
        self._connections[worker] = count
        return sum(self._connections)

    def count_streams(self, worker: int, change: int) -> None:
        self._streams[worker] += change

    def others_with_streams(self, worker: int) -> list[int]:
        return [other for other, count in enumerate(self._streams) if count and other != worker]

    @property
    def is_shut(self) -> bool:
        """A worker has seen a key, so all workers require one."""
        return bool(self._shut[0])

    def shut(self) -> None:
        self._shut[0] = 1


class Box:
    """A datagram socket pair for messages to one worker from all others."""

    def __init__(self) -> None:
        self.inbox, self.outbox = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        for end in (self.inbox, self.outbox):
            end.setblocking(False)

    def close(self) -> None:
        self.inbox.close()
        self.outbox.close()


class Page:
    """Bytes that one process writes and others read. The old ones stay valid until the new ones are complete, even if the writer dies."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _NUMBER.size + 2 * PAGE_BYTES)

    def write(self, content: bytes) -> None:
        if _HEAD.size + len(content) > PAGE_BYTES:
            raise ValueError(f"{len(content)} bytes are more than a page takes")
        side = 1 - self._side()
        start = self._start(side)
        self._memory[start + _HEAD.size : start + _HEAD.size + len(content)] = content
        _HEAD.pack_into(self._memory, start, len(content), crc32(content))
        _NUMBER.pack_into(self._memory, 0, side)

    def read(self) -> bytes:
        """Empty before the first write. A page that was written twice during the read is read again."""
        while True:
            start = self._start(self._side())
            size, check = _HEAD.unpack_from(self._memory, start)
            content = self._memory[start + _HEAD.size : start + _HEAD.size + size]
            if crc32(content) == check:
                return content

    def _side(self) -> int:
        side: int = _NUMBER.unpack_from(self._memory)[0]
        return side

    def _start(self, side: int) -> int:
        return _NUMBER.size + side * PAGE_BYTES
