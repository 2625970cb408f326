"""AsyncRemoteBroker: the verbs of an AsyncBroker, over HTTP."""

from __future__ import annotations

from typing import Never, cast

from rowq.async_broker import AsyncBroker
from rowq.client.address import Address
from rowq.client.broker import NO_TRANSACTION
from rowq.client.engine import RemoteEngine
from rowq.engine import Engine


class AsyncRemoteBroker(AsyncBroker):
    """The queue on a server, for coroutines. Made by `rowq.connect_async("http://…")`."""

    def __init__(self, address: Address, timeout: float) -> None:
        super().__init__(lambda: cast(Engine, RemoteEngine(address, timeout)))

    @property
    def within(self) -> Never:
        raise AttributeError(NO_TRANSACTION)

    async def close(self) -> None:
        if self._opened is not None:
            await cast(RemoteEngine, self._opened).close_async()
