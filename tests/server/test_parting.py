"""How the server hangs up on a client that may be gone."""

from __future__ import annotations

import asyncio
import socket
import struct

from rowq.server.http.parting import hang_up


def test_a_client_that_has_reset_its_connection_does_not_disturb_the_one_who_hangs_up() -> None:
    async def run() -> bool:
        loop = asyncio.get_running_loop()
        with socket.create_server(("127.0.0.1", 0)) as listening:
            client = socket.create_connection(listening.getsockname())
            accepted, _ = listening.accept()
        transport, _ = await loop.connect_accepted_socket(asyncio.Protocol, accepted)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()  # resets; the loop learns of it in its next turn
        hang_up(transport, loop)
        return transport.is_closing()

    assert asyncio.run(run())
