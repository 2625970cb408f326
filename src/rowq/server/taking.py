"""How a request receives: once at once, then for as long as its client waits, and what nobody is there to get is given back."""

from __future__ import annotations

from collections.abc import Callable

from rowq.errors import Unauthorized
from rowq.server import asgi
from rowq.server.gate import Identity
from rowq.server.patience import first_of
from rowq.server.service import Service
from rowq.store.calls import Receive


async def take(service: Service, new_call: Callable[[], Receive], wait_ms: int, receive: asgi.Receive, identity: Identity) -> Receive:
    """Whoever answers with it asks first whether the client is still there."""
    call = new_call()
    await service.engine.driver.perform(call)
    if call.result or not wait_ms:
        return call
    with service.patience() as stop:
        wait = service.ask(service.engine.verbs.wait_for(new_call, wait_ms / 1000), call.actor)
        call = await first_of(wait, receive, stop) or call
    if not service.gate.holds(identity):
        service.engine.give_back(call)
        raise Unauthorized("the key was revoked while you waited")
    return call
