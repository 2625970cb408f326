"""HTTP/1.1 without sockets: bytes in, answers out."""

from __future__ import annotations

import httptools


class Garbled(Exception):
    """What came is no HTTP."""


class Answer:
    __slots__ = ("body", "is_repeat", "retry_after", "status")

    def __init__(self, status: int, body: bytes, retry_after: float | None = None) -> None:
        self.status = status
        self.body = body
        self.retry_after = retry_after
        self.is_repeat = False
        """The question was asked before, and may have been heard: this is what came of the second time."""


class Reader:
    """The answers that come over one connection, one at a time."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self.keeps_alive = False
        self.begin()

    def begin(self) -> None:
        self.status = 0
        self.has_begun = False
        self.has_head = False
        self.is_complete = False
        self._retry_after: float | None = None
        self._pieces: list[bytes] = []

    def feed(self, data: bytes) -> None:
        self.has_begun = True
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.keeps_alive = False
            if not self.is_complete:  # else the answer is whole, and only what follows is none
                raise Garbled(str(error) or type(error).__name__) from None

    def answer(self) -> Answer:
        pieces = self._pieces
        return Answer(self.status, pieces[0] if len(pieces) == 1 else b"".join(pieces), self._retry_after)

    def take(self) -> bytes:
        """What has come of the body since the last time."""
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)

    def on_message_begin(self) -> None:
        if self.is_complete:
            raise Garbled("an answer that nobody asked for")  # to be mixed up with the one before

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(name) == 11 and name.lower() == b"retry-after" and value.isdigit():
            self._retry_after = float(value[:6])

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        self.has_head = self.status >= 200

    def on_body(self, body: bytes) -> None:
        self._pieces.append(body)

    def on_message_complete(self) -> None:
        if self.status >= 200:  # a 1xx only announces an answer
            self.keeps_alive = self._parser.should_keep_alive()
            self.is_complete = True
