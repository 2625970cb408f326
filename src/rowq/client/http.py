"""HTTP/1.1 without sockets: bytes in, answers out."""

from __future__ import annotations

import re

MAX_HEAD = 64 * 1024
_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9]{2})(?: .*)?")
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})(?:[ \t]*;.*)?")
_BODILESS = (204, 304)


class Garbled(Exception):
    """The response is not HTTP."""


class Answer:
    __slots__ = ("body", "is_repeat", "retry_after", "status")

    def __init__(self, status: int, body: bytes, retry_after: float | None = None) -> None:
        self.status = status
        self.body = body
        self.retry_after = retry_after
        self.is_repeat = False
        """The request was sent before, and may have been received: this is the response to the second try."""


class Reader:
    """Parses the responses of one connection, one at a time."""

    def __init__(self) -> None:
        self.keeps_alive = False
        self.begin()

    def begin(self) -> None:
        self.status = 0
        self.has_begun = False
        self.has_head = False
        self.is_complete = False
        self._retry_after: float | None = None
        self._pieces: list[bytes] = []
        self._buffer = b""
        self._left: int | None = None
        """Bytes of the body, or of the chunk, still to come; None: until the connection ends."""
        self._is_chunked = False
        self._is_trailing = False

    def feed(self, data: bytes) -> None:
        self.has_begun = True
        if self.is_complete:
            self.keeps_alive = False  # it answers no request
            return
        if not self.has_head:
            rest = self._find_head(self._buffer + data)
            if rest is None:
                return
            data = rest
        if self._is_chunked:
            self._take_chunks(self._buffer + data)
        elif self._left is None:
            self._pieces.append(data)
        else:
            self._take(data)

    def answer(self) -> Answer:
        pieces = self._pieces
        return Answer(self.status, pieces[0] if len(pieces) == 1 else b"".join(pieces), self._retry_after)

    def take(self) -> bytes:
        """The part of the body that has arrived since the last call."""
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)

    def _find_head(self, data: bytes) -> bytes | None:
        """What follows the head; None while the head is incomplete. A status of 1xx only announces another head."""
        while not self.has_head:
            head, end, data = data.partition(b"\r\n\r\n")
            if len(head) > MAX_HEAD:
                raise Garbled("its headers do not end")
            if not end:
                if not head.startswith(b"HTTP/"[: len(head)]):
                    raise Garbled("it does not answer in HTTP/1.1")
                self._buffer = head
                return None
            self._read_head(head.split(b"\r\n"))
        self._buffer = b""
        return data

    def _read_head(self, lines: list[bytes]) -> None:
        status = _STATUS.fullmatch(lines[0])
        if status is None:
            raise Garbled("it does not answer in HTTP/1.1")
        self.status = int(status[2])
        tokens, length = {b"keep-alive"} if status[1] == b"1" else set[bytes](), None
        for line in lines[1:]:
            name, colon, value = line.partition(b":")
            if not colon or not name or name != name.strip():
                raise Garbled("one of its headers is malformed")
            name, value = name.lower(), value.strip()
            if name == b"content-length":
                if not value.isdigit() or len(value) > 15 or length not in (None, int(value)):
                    raise Garbled("its length is not a number")
                length = int(value)
            elif name == b"transfer-encoding":
                if value.lower() != b"chunked" or self._is_chunked:
                    raise Garbled("its transfer encoding is not known")
                self._is_chunked = True
            elif name == b"connection":
                tokens.update(token.strip() for token in value.lower().split(b","))
            elif name == b"retry-after" and value.isdigit():
                self._retry_after = float(value[:6])
        if self._is_chunked and length is not None:
            raise Garbled("it has both a length and chunks")
        if self.status < 200:
            if self.status == 101:
                raise Garbled("it changes the protocol")
            self._is_chunked = False
            return
        self.keeps_alive = b"keep-alive" in tokens and b"close" not in tokens
        self.has_head = True
        self._left = 0 if self.status in _BODILESS else length
        self._is_chunked = self._is_chunked and self.status not in _BODILESS
        if self._is_chunked:
            self._left = 0

    def _take(self, data: bytes) -> None:
        left = self._left or 0
        if data:
            self._pieces.append(data[:left] if len(data) > left else data)
        if len(data) >= left:
            self._complete(is_all=len(data) == left)
        self._left = left - len(data)

    def _take_chunks(self, data: bytes) -> None:
        self._buffer = b""
        while not self.is_complete:
            if self._left:
                piece = data[: self._left]
                data = data[len(piece) :]
                # The line break after the chunk is counted with it, and is not part of the body.
                body = piece if self._left > 2 else b""
                if self._left - len(piece) < 2 and body:
                    body = body[: self._left - 2]
                if body:
                    self._pieces.append(body)
                self._left -= len(piece)
                if self._left:
                    return
            line, end, rest = data.partition(b"\r\n")
            if not end:
                if len(data) > MAX_HEAD:
                    raise Garbled("a chunk has no size")
                self._buffer = data
                return
            data = rest
            if self._is_trailing:
                if not line:
                    self._complete(is_all=not data)
                continue
            size = _SIZE.fullmatch(line)
            if size is None:
                raise Garbled("a chunk has no size")
            if count := int(size[1], 16):
                self._left = count + 2
            else:
                self._is_trailing = True

    def _complete(self, *, is_all: bool) -> None:
        self.is_complete = True
        self.keeps_alive = self.keeps_alive and is_all
