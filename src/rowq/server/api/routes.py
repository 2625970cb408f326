"""The table of all routes: what the application serves, and what OpenAPI and the /docs page describe."""

from __future__ import annotations

from types import NoneType
from typing import Any, get_args, get_type_hints

import msgspec
from starlette.responses import Response

from rowq import wire
from rowq.server.api import consumers, dead, documents, events, messages, operations, queues
from rowq.server.api.route import EVENTS, LINES, Handler, Route

__all__ = ["ROUTES", "Route"]

_QUEUE = "/v1/queues/{queue}"
_SETTLED = (
    "Each receipt has its own result: `done`; `stale` if another lease holds the message, or it waits again; `not_found` if it is gone, or "
    "the text is not a receipt. Only `done` has changed anything."
)
_SETTLES = (
    ("ack", wire.AckBody, "Acknowledge deliveries: they are done"),
    ("nack", wire.NackBody, "Report failures: the messages come back after their backoff, or die"),
    ("reject", wire.RejectBody, "Reject deliveries: they become dead letters at once"),
    ("reschedule", wire.RescheduleBody, "Reschedule deliveries, without costing an attempt"),
    ("extend", wire.ExtendBody, "Extend leases, counted from now"),
)


def _hot(path: str, verb: str, summary: str, body: type, answer: Any, **more: Any) -> Route:
    return Route(method="POST", path=path, name=verb, summary=summary, body=body, answer=answer, **more)


def _route(method: str, path: str, handler: Handler, summary: str, **more: Any) -> Route:
    """A route whose query, body and answer are those of the handler's signature."""
    hints = get_type_hints(handler)
    query, body = (None if kind is NoneType else kind for kind in get_args(hints["asked"]))
    answer = hints["return"]
    more.setdefault("status", 204 if answer is NoneType and "events" not in more else 200)
    more.setdefault("answer", None if issubclass(answer, NoneType | Response) else answer)
    more.setdefault("right", "look" if method == "GET" else "admin")
    return Route(method=method, path=path, handler=handler, summary=summary, query=query, body=body, **more)


_PAGES = documents.Documents(lambda: ROUTES)
_BY_TAG: dict[str, tuple[Route, ...]] = {
    "Work": (
        _hot(
            f"{_QUEUE}/messages",
            "send",
            "Send one message, or several: all of them or none",
            wire.SendBody,
            wire.SentOne | wire.SentMany,
            right="send",
            note="With an `Idempotency-Key` a retry gets the answer of the first try, and sends nothing again.",
            status=201,
            refusals=(409, 422, 429),
        ),
        _hot(
            f"{_QUEUE}/deliveries",
            "receive",
            "Receive messages under a lease",
            wire.ReceiveBody,
            wire.Deliveries,
            right="receive",
            note="With `wait_ms` it answers when a message arrives, or with none when the time is over. Dead letters are received from "
            "the queue's name with the suffix `.dlq`.",
        ),
        *(_hot(f"/v1/{verb}", verb, summary, body, wire.Results, right="receive", note=_SETTLED) for verb, body, summary in _SETTLES),
        _route(
            "GET",
            f"{_QUEUE}/deliveries",
            events.stream_deliveries,
            "Receive as server-sent events",
            right="receive",
            media=EVENTS,
            events={"delivery": wire.DeliveryBody, "ping": None, "problem": wire.Problem},
            note="Continues until the client leaves. At most `in_flight` deliveries are unsettled at any time; settling one makes room "
            "for the next. Deliveries are settled as usual, with their receipts.",
        ),
    ),
    "Consumers": (
        _route("GET", f"{_QUEUE}/consumers", consumers.list_consumers, "Consumers that are alive"),
        _route("GET", "/v1/consumers", consumers.list_all_consumers, "Consumers of all queues"),
        _route(
            "POST",
            f"{_QUEUE}/consumers",
            consumers.register_consumer,
            "Register a consumer of a queue",
            right="receive",
            status=201,
            note="It is alive as long as it sends heartbeats. Its index among the live consumers, the oldest first, determines its share.",
        ),
        _route(
            "POST",
            f"{_QUEUE}/consumers/{{consumer_id}}/beat",
            consumers.beat,
            "Send a heartbeat, and get the current share",
            right="receive",
            refusals=(410,),
        ),
        _route("DELETE", f"{_QUEUE}/consumers/{{consumer_id}}", consumers.unregister_consumer, "Unregister a consumer", right="receive"),
    ),
    "Queues": (
        _route("GET", "/v1/queues", queues.list_queues, "All queues, with the number of messages in each state"),
        _route("GET", _QUEUE, queues.get_queue, "A queue: depth, own settings, and effective settings"),
        _route("GET", f"{_QUEUE}/stats", queues.get_stats, "The number of messages of a queue in each state"),
        _route("GET", f"{_QUEUE}/policy", queues.get_policy, "The effective settings of a queue: its own over the defaults"),
        _route("GET", "/v1/settings", queues.list_settings, "The queues' own settings, and the defaults", refusals=(404,)),
        _route("PUT", _QUEUE, queues.configure, "Change settings; null resets to the default"),
        _route("DELETE", _QUEUE, queues.delete_queue, "Delete a queue with its messages and settings", refusals=(409,)),
        _route("POST", f"{_QUEUE}/pause", queues.pause, "Pause deliveries until the queue is resumed"),
        _route("DELETE", f"{_QUEUE}/pause", queues.resume, "Resume deliveries"),
        _route("DELETE", f"{_QUEUE}/messages", queues.purge, "Delete the waiting messages, or those in the given states"),
        _route("GET", "/v1/actions", queues.list_actions, "What operators did, the newest first", right="admin", refusals=(404,)),
    ),
    "Messages": (
        _route("GET", f"{_QUEUE}/messages", messages.browse, "Browse messages without receiving them"),
        _route(
            "GET",
            "/v1/messages",
            messages.walk,
            "Every message as of this moment, one per line",
            answer=wire.MessageLook,
            media=LINES,
            refusals=(404,),
        ),
        _route("GET", "/v1/messages/{id}", messages.get_message, "One message, in any state", refusals=(409,)),
        _route("DELETE", "/v1/messages/{id}", messages.delete_message, "Delete one message", refusals=(409,)),
        _route("GET", "/v1/messages/{id}/audit", messages.audit, "The history of a message", refusals=(409,)),
    ),
    "Dead letters": (
        _route("GET", f"{_QUEUE}/dead", messages.browse_dead, "A page of dead letters"),
        _route("GET", f"{_QUEUE}/dead/failures", dead.list_failures, "Failures by cause"),
        _route("DELETE", f"{_QUEUE}/dead", dead.purge_dead, "Delete all dead letters"),
        _route("POST", f"{_QUEUE}/dead/redrive", dead.redrive, "Redrive dead letters into their queue", lasts=True),
        _route("POST", f"{_QUEUE}/dead/removal", dead.remove, "Delete some dead letters", lasts=True),
    ),
    "Streams": (
        _route("GET", "/v1/streams", consumers.list_streams, "Consumers that take numbered batches", right="admin", of_the_whole=True),
        _route(
            "POST",
            "/v1/streams/{stream}/revocation",
            consumers.revoke_stream,
            "Return everything that a stream holds to its queues",
            of_the_whole=True,
            note="Its query cannot continue from its checkpoint: start it with a new one.",
        ),
        _route(
            "POST",
            "/v1/streams/{stream}/quarantine",
            consumers.quarantine,
            "Make messages of a batch dead letters",
            of_the_whole=True,
            note="The batch continues without them.",
        ),
    ),
    "Undelivered keys": (
        _route("GET", "/v1/keys", dead.list_keys, "Payloads of undelivered messages by key", of_the_whole=True),
        _route("DELETE", "/v1/keys", dead.forget_key, "Delete one undelivered key", refusals=(404,), of_the_whole=True),
        _route(
            "GET",
            "/v1/keys/watch",
            events.stream_keys,
            "Undelivered keys as events",
            media=EVENTS,
            events={"set": wire.EntryBody, "removed": events.RemovedKey, "ping": None, "problem": wire.Problem},
            note="`set` for each existing key and for each that is added or changed; `removed` when one is removed.",
            of_the_whole=True,
        ),
    ),
    "Access": (
        _route("GET", "/v1/api-keys", operations.list_api_keys, "API keys", right="admin", of_the_whole=True),
        _route(
            "POST",
            "/v1/api-keys",
            operations.create_api_key,
            "Create an API key; its secret is shown once",
            status=201,
            of_the_whole=True,
        ),
        _route("DELETE", "/v1/api-keys/{name}", operations.revoke_api_key, "Revoke an API key", of_the_whole=True),
        _route("POST", "/v1/tokens", operations.issue_token, "A short-lived token for EventSource", right="any", status=201),
    ),
    "Operations": (
        _route("GET", "/healthcheck", operations.healthcheck, "The database answers", right=None),
        _route("GET", "/readyz", operations.readyz, "The server is ready for requests", right=None),
        _route(
            "GET",
            "/metrics",
            operations.metrics,
            "Metrics for Prometheus",
            right="metrics",
            of_the_whole=True,
            media="text/plain",
            refusals=(404,),
        ),
        _route("POST", "/v1/sweep", operations.sweep, "Run maintenance now", of_the_whole=True),
        _route("GET", "/v1/sweeps", operations.list_sweeps, "The maintenance tasks, by name", right="admin", of_the_whole=True),
        _route("POST", "/v1/sweeps/{sweep}", operations.run_sweep, "Run one maintenance task now", refusals=(404,), of_the_whole=True),
        _route("GET", "/v1/doctor", operations.doctor, "Check the database for problems", right="admin", of_the_whole=True),
    ),
    "Documents": (
        _route("GET", "/openapi.json", _PAGES.openapi, "This description, for programs", answer=dict[str, Any], right="any"),
        _route("GET", "/docs", _PAGES.docs, "This description, for people", right="any", media="text/html"),
    ),
}

ROUTES: tuple[Route, ...] = tuple(msgspec.structs.replace(route, tag=tag) for tag, routes in _BY_TAG.items() for route in routes)
