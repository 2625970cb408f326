"""What each way into the server takes, written down a second time: a way that is not here, or is here and not there, fails.

A scope, and how far a key reaches that is for some queues only:

- `queue`: the way is about one queue, and another one is refused
- `own`: it is answered, with what belongs to its own queues and no word of others
- `whole`: it is about all queues at once, so it is refused
- `any`: it is about no queue
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from rowq.model.access import Right

Reach = Literal["queue", "own", "whole", "any"]


class Expected(NamedTuple):
    """`right` None is open to everybody, "any" to every key."""

    right: Right | Literal["any"] | None
    reach: Reach


def _read(table: str) -> dict[str, Expected]:
    """Lines of method, path, right and reach."""
    found: dict[str, Expected] = {}
    for line in table.strip().splitlines():
        method, path, right, reach = line.split()
        found[f"{method} {path}"] = Expected(None if right == "open" else right, reach)  # type: ignore[arg-type]  # the words above
    return found


API = _read("""
    POST    /v1/queues/{queue}/messages                      send     queue
    POST    /v1/queues/{queue}/deliveries                    receive  queue
    GET     /v1/queues/{queue}/deliveries                    receive  queue
    POST    /v1/ack                                          receive  own
    POST    /v1/nack                                         receive  own
    POST    /v1/reject                                       receive  own
    POST    /v1/reschedule                                   receive  own
    POST    /v1/extend                                       receive  own
    GET     /v1/queues/{queue}/consumers                     look     queue
    GET     /v1/consumers                                    look     own
    POST    /v1/queues/{queue}/consumers                     receive  queue
    POST    /v1/queues/{queue}/consumers/{consumer_id}/beat  receive  queue
    DELETE  /v1/queues/{queue}/consumers/{consumer_id}       receive  queue
    GET     /v1/queues                                       look     own
    GET     /v1/queues/{queue}                               look     queue
    GET     /v1/queues/{queue}/stats                         look     queue
    GET     /v1/queues/{queue}/policy                        look     queue
    GET     /v1/settings                                     look     own
    PUT     /v1/queues/{queue}                               admin    queue
    DELETE  /v1/queues/{queue}                               admin    queue
    POST    /v1/queues/{queue}/pause                         admin    queue
    DELETE  /v1/queues/{queue}/pause                         admin    queue
    DELETE  /v1/queues/{queue}/messages                      admin    queue
    GET     /v1/actions                                      admin    own
    GET     /v1/queues/{queue}/messages                      look     queue
    GET     /v1/messages                                     look     own
    GET     /v1/messages/{id}                                look     own
    DELETE  /v1/messages/{id}                                admin    own
    GET     /v1/messages/{id}/audit                          look     own
    GET     /v1/queues/{queue}/dead                          look     queue
    GET     /v1/queues/{queue}/dead/failures                 look     queue
    DELETE  /v1/queues/{queue}/dead                          admin    queue
    POST    /v1/queues/{queue}/dead/redrive                  admin    queue
    POST    /v1/queues/{queue}/dead/removal                  admin    queue
    GET     /v1/streams                                      admin    whole
    POST    /v1/streams/{stream}/revocation                  admin    whole
    POST    /v1/streams/{stream}/quarantine                  admin    whole
    GET     /v1/keys                                         look     whole
    DELETE  /v1/keys                                         admin    whole
    GET     /v1/keys/watch                                   look     whole
    GET     /v1/api-keys                                     admin    whole
    POST    /v1/api-keys                                     admin    whole
    DELETE  /v1/api-keys/{name}                              admin    whole
    POST    /v1/tokens                                       any      any
    GET     /healthcheck                                     open     any
    GET     /readyz                                          open     any
    GET     /metrics                                         metrics  whole
    POST    /v1/sweep                                        admin    whole
    GET     /v1/sweeps                                       admin    whole
    POST    /v1/sweeps/{sweep}                               admin    whole
    GET     /v1/doctor                                       admin    whole
    GET     /openapi.json                                    any      any
    GET     /docs                                            any      any
""")

COMPAT = _read("""
    POST    /api/v1/queues/{queue}/messages            send     queue
    GET     /api/v1/queues/{queue}/messages            receive  queue
    POST    /api/v1/queues/{queue}/messages/{id}/ack   receive  queue
    POST    /api/v1/queues/{queue}/messages/{id}/nack  receive  queue
    POST    /keyval/api/queue/enqueue                  send     queue
    GET     /keyval/api/queue/listen                   receive  queue
    GET     /keyval/api/queue/poll                     receive  queue
    POST    /keyval/api/queue/ack                      receive  queue
    POST    /keyval/api/queue/nack                     receive  queue
    GET     /keyval/api/queue/stats                    look     queue
    GET     /keyval/api/queue/dlq                      look     queue
    DELETE  /keyval/api/queue/dlq                      admin    queue
    GET     /keyval/api/queue/dlq/{id}                 look     queue
    DELETE  /keyval/api/queue/dlq/{id}                 admin    queue
    POST    /keyval/api/queue/dlq/{id}/requeue         admin    queue
    GET     /keyval/api/keys                           look     whole
    POST    /api/messages                              send     queue
    GET     /api/messages                              look     own
    POST    /api/messages/dequeue                      receive  queue
    POST    /api/messages/{id}/ack                     receive  own
    POST    /api/messages/{id}/nack                    receive  own
    POST    /api/messages/{id}/requeue                 admin    own
    GET     /api/stats                                 look     own
    GET     /api/topic-configs                         look     own
    GET     /api/topic-configs/{topic}                 look     queue
    PUT     /api/topic-configs/{topic}                 admin    queue
    DELETE  /api/topic-configs/{topic}                 admin    queue
    POST    /api/admin/expiry-reaper/run               admin    whole
    POST    /api/admin/delete-reaper/run               admin    whole
    GET     /api/admin/delete-reaper/schedule          admin    any
""")

PAGES = _read("""
    GET     /login                                 open   any
    POST    /login                                 open   any
    POST    /logout                                admin  any
    GET     /                                      admin  own
    GET     /dead                                  admin  own
    POST    /queue/{queue}/dead/redrive            admin  queue
    POST    /queue/{queue}/dead/removal            admin  queue
    DELETE  /queue/{queue}/messages                admin  queue
    POST    /queue/{queue}/messages/requeue        admin  queue
    DELETE  /queue/{queue}/messages/{id}           admin  queue
    POST    /queue/{queue}/messages/requeue/{id}   admin  queue
    GET     /queue/{queue}/messages/{id}/resend    admin  queue
    POST    /queue/{queue}/messages/{id}/resend    admin  queue
    GET     /jobs/{id}                             admin  own
    POST    /jobs/{id}/cancellation                admin  own
    GET     /events                                admin  own
    GET     /consumers                             admin  own
    GET     /streams                               admin  whole
    POST    /streams/{stream}/revocation           admin  whole
    GET     /sweeps                                admin  whole
    POST    /sweeps/{sweep}                        admin  whole
    GET     /actions                               admin  own
    GET     /health                                admin  whole
    GET     /queue/{queue}                         admin  queue
    GET     /queue/{queue}/                        admin  queue
    GET     /queue/{queue}/messages                admin  queue
    GET     /queue/{queue}/messages/{id}/details   admin  queue
    GET     /queue/{queue}/messages/{id}/payload   admin  queue
    POST    /queue/{queue}/messages/{id}/removal   admin  queue
    GET     /queue/{queue}/send                    admin  queue
    POST    /queue/{queue}/send                    admin  queue
    POST    /queue/{queue}/pause                   admin  queue
    POST    /queue/{queue}/resumption              admin  queue
    GET     /queue/{queue}/purge                   admin  queue
    POST    /queue/{queue}/purge                   admin  queue
    POST    /queue/{queue}/removal                 admin  queue
    GET     /queue/{queue}/settings                admin  queue
    POST    /queue/{queue}/settings                admin  queue
    GET     /config                                admin  own
""")
