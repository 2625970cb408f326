"""A way to a server that can be cut at a word, and stays open while the server is away."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

from tests.store.cutting import CuttableWay


class LastingWay(CuttableWay):
    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(("127.0.0.1", self._target))
                except OSError:
                    client.close()
                    continue
                self._ends += [client, server]
                threading.Thread(target=self._forward, args=(client, server, True), daemon=True).start()
                threading.Thread(target=self._forward, args=(server, client, False), daemon=True).start()
