"""What the server is held against: an ASGI application that does nothing but give a body back, on the same uvicorn.

`python -m benchmarks.echo` with a listening socket's number runs it, with uvicorn's own connection layer or, told `ours`, with rowq's.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn

from rowq.server.http.connection import make_protocol

Message = dict[str, Any]


async def echo(_: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]) -> None:
    message = await receive()
    body = message["body"]
    while message["more_body"]:
        message = await receive()
        body += message["body"]
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json"), length]})
    await send({"type": "http.response.body", "body": body})


def main() -> None:
    listening = socket.socket(fileno=int(sys.argv[1]))
    ours: Any = make_protocol(http2=False, max_header_bytes=32_768, header_timeout=10, max_connections=10_000)
    http: Any = ours if "ours" in sys.argv else "httptools"
    config = uvicorn.Config(echo, loop="uvloop", http=http, lifespan="off", log_config=None, access_log=False)
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
