"""RemoteBroker: the verbs of a Broker, over HTTP."""

from __future__ import annotations

from typing import Never, cast

from rowq.broker import Broker
from rowq.client.address import Address
from rowq.client.engine import RemoteEngine
from rowq.engine import Engine

NO_TRANSACTION = "a server's queue is in another database than your connection: `within` needs a broker that has the database in process"


class RemoteBroker(Broker):
    """The queue on a server. Made by `rowq.connect("http://…")`; may be used from any number of threads, and in forked processes.

    It is a Broker, so code that takes a Broker takes this one too, and every verb has one signature. A RemoteEngine has the shape of
    an Engine as far as a broker uses it; the contract suite, which runs over HTTP as well, sees to it that this stays true.
    """

    def __init__(self, address: Address, timeout: float) -> None:
        super().__init__(cast(Engine, RemoteEngine(address, timeout)))

    @property
    def within(self) -> Never:
        raise AttributeError(NO_TRANSACTION)
