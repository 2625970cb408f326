"""The table of all routes: what the application serves, and what OpenAPI and the /docs page describe."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from rowq.engine.maintenance import MaintenanceResult
from rowq.model.failure import Failures
from rowq.model.member import Membership
from rowq.model.message import Stats
from rowq.server.api import api_keys, consumers, dead, documents, events, keys, messages, operations, queues, streams
from rowq.server.api.route import EVENTS, LINES, Handler, Route
from rowq.wire import (
    AckBody,
    Count,
    Deliveries,
    DeliveryBody,
    Entries,
    EntryBody,
    Events,
    ExtendBody,
    MessageLook,
    Messages,
    NackBody,
    Problem,
    QueueLook,
    Queues,
    ReceiveBody,
    RedriveBody,
    RejectBody,
    RescheduleBody,
    Results,
    SendBody,
    SentMany,
    SentOne,
    SettingsBody,
)

__all__ = ["ROUTES", "Route"]

_QUEUE = "/v1/queues/{queue}"
_SETTLED = (
    "Each receipt has its own result: `done`; `stale` if another lease holds the message, or it waits again; `not_found` if it is gone, or "
    "the text is not a receipt. Only `done` has changed anything."
)
_SETTLES = (
    ("ack", AckBody, "Acknowledge deliveries: they are done"),
    ("nack", NackBody, "Report failures: the messages come back after their backoff, or die"),
    ("reject", RejectBody, "Reject deliveries: they become dead letters at once"),
    ("reschedule", RescheduleBody, "Reschedule deliveries, without costing an attempt"),
    ("extend", ExtendBody, "Extend leases, counted from now"),
)


def _get(path: str, handler: Handler, summary: str, answer: Any, right: Any = "look", **more: Any) -> Route:
    return Route(method="GET", path=path, handler=handler, summary=summary, answer=answer, right=right, **more)


def _change(method: str, path: str, handler: Handler, summary: str, answer: Any = None, right: Any = "admin", **more: Any) -> Route:
    status = more.pop("status", 204 if answer is None else 200)
    return Route(method=method, path=path, handler=handler, summary=summary, answer=answer, right=right, status=status, **more)


_consume = partial(_change, right="receive")


_HOT = (
    Route(
        method="POST",
        path=f"{_QUEUE}/messages",
        name="send",
        summary="Send one message, or several: all of them or none",
        note="With an `Idempotency-Key` a retry gets the answer of the first try, and sends nothing again.",
        right="send",
        body=SendBody,
        answer=SentOne | SentMany,
        status=201,
        refusals=(409, 422, 429),
    ),
    Route(
        method="POST",
        path=f"{_QUEUE}/deliveries",
        name="receive",
        summary="Receive messages under a lease",
        note="With `wait_ms` it answers when a message arrives, or with none when the time is over. Dead letters are received from "
        "the queue's name with the suffix `.dlq`.",
        right="receive",
        body=ReceiveBody,
        answer=Deliveries,
    ),
    *(
        Route(method="POST", path=f"/v1/{verb}", name=verb, summary=summary, note=_SETTLED, right="receive", body=body, answer=Results)
        for verb, body, summary in _SETTLES
    ),
)

_CONSUMERS = (
    _get(f"{_QUEUE}/consumers", consumers.list_consumers, "Consumers that are alive", consumers.Consumers, query=consumers.ConsumersQuery),
    _get("/v1/consumers", consumers.list_all_consumers, "Consumers of all queues", consumers.AllConsumers, query=consumers.ConsumersQuery),
    _consume(
        "POST",
        f"{_QUEUE}/consumers",
        consumers.register_consumer,
        "Register a consumer of a queue",
        Membership,
        body=consumers.RegisterBody,
        status=201,
        note="It is alive as long as it sends heartbeats. Its index among the live consumers, the oldest first, determines its share.",
    ),
    _consume(
        "POST",
        f"{_QUEUE}/consumers/{{consumer_id}}/beat",
        consumers.beat,
        "Send a heartbeat, and get the current share",
        Membership,
        body=consumers.BeatBody,
        refusals=(410,),
    ),
    _consume("DELETE", f"{_QUEUE}/consumers/{{consumer_id}}", consumers.unregister_consumer, "Unregister a consumer"),
)

_QUEUES = (
    _get("/v1/queues", queues.list_queues, "All queues, with the number of messages in each state", Queues),
    _get(_QUEUE, queues.get_queue, "A queue: depth, own settings, and effective settings", QueueLook),
    _get(f"{_QUEUE}/stats", queues.get_stats, "The number of messages of a queue in each state", Stats),
    _get(f"{_QUEUE}/policy", queues.get_policy, "The effective settings of a queue: its own over the defaults", SettingsBody),
    _get(
        "/v1/settings",
        queues.list_settings,
        "The queues' own settings, and the defaults",
        queues.AllSettings,
        query=queues.SettingsQuery,
        refusals=(404,),
    ),
    _change("PUT", _QUEUE, queues.configure, "Change settings; null resets to the default", SettingsBody, body=SettingsBody),
    _change("DELETE", _QUEUE, queues.delete_queue, "Delete a queue with its messages and settings", refusals=(409,)),
    _change("POST", f"{_QUEUE}/pause", queues.pause, "Pause deliveries until the queue is resumed"),
    _change("DELETE", f"{_QUEUE}/pause", queues.resume, "Resume deliveries"),
    _change(
        "DELETE",
        f"{_QUEUE}/messages",
        queues.purge,
        "Delete the waiting messages, or those in the given states",
        Count,
        query=queues.PurgeQuery,
    ),
    _get(
        "/v1/actions",
        queues.list_actions,
        "What operators did, the newest first",
        Events,
        right="admin",
        query=queues.ActionsQuery,
        refusals=(404,),
    ),
)

_MESSAGES = (
    _get(f"{_QUEUE}/messages", messages.browse, "Browse messages without receiving them", Messages, query=messages.BrowseQuery),
    _get(
        "/v1/messages",
        messages.walk,
        "Every message as of this moment, one per line",
        MessageLook,
        query=messages.WalkQuery,
        media=LINES,
        refusals=(404,),
    ),
    _get("/v1/messages/{id}", messages.get_message, "One message, in any state", MessageLook, query=messages.MessageQuery, refusals=(409,)),
    _change("DELETE", "/v1/messages/{id}", messages.delete_message, "Delete one message", query=messages.MessageQuery, refusals=(409,)),
    _get("/v1/messages/{id}/audit", messages.audit, "The history of a message", Events, query=messages.MessageQuery, refusals=(409,)),
)

_DEAD = (
    _get(f"{_QUEUE}/dead", messages.browse_dead, "A page of dead letters", Messages, query=messages.DeadQuery),
    _get(f"{_QUEUE}/dead/failures", dead.list_failures, "Failures by cause", Failures, query=dead.FailuresQuery),
    _change("DELETE", f"{_QUEUE}/dead", dead.purge_dead, "Delete all dead letters", Count),
    _change("POST", f"{_QUEUE}/dead/redrive", dead.redrive, "Redrive dead letters into their queue", Count, body=RedriveBody, lasts=True),
    _change("POST", f"{_QUEUE}/dead/removal", dead.remove, "Delete some dead letters", Count, body=RedriveBody, lasts=True),
)

_STREAMS = (
    _get("/v1/streams", streams.list_streams, "Consumers that take numbered batches", streams.Streams, right="admin", of_the_whole=True),
    _change(
        "POST",
        "/v1/streams/{stream}/revocation",
        streams.revoke_stream,
        "Return everything that a stream holds to its queues",
        Count,
        of_the_whole=True,
        note="Its query cannot continue from its checkpoint: start it with a new one.",
    ),
    _change(
        "POST",
        "/v1/streams/{stream}/quarantine",
        streams.quarantine,
        "Make messages of a batch dead letters",
        Count,
        body=streams.QuarantineBody,
        of_the_whole=True,
        note="The batch continues without them.",
    ),
)

_EVENTS = (
    _get(
        f"{_QUEUE}/deliveries",
        events.stream_deliveries,
        "Receive as server-sent events",
        None,
        right="receive",
        query=events.DeliveriesQuery,
        media=EVENTS,
        events={"delivery": DeliveryBody, "ping": None, "problem": Problem},
        note="Continues until the client leaves. At most `in_flight` deliveries are unsettled at any time; settling one makes room for the "
        "next. Deliveries are settled as usual, with their receipts.",
    ),
    _get(
        "/v1/keys/watch",
        events.stream_keys,
        "Undelivered keys as events",
        None,
        query=events.WatchQuery,
        media=EVENTS,
        events={"set": EntryBody, "removed": events.RemovedKey, "ping": None, "problem": Problem},
        note="`set` for each existing key and for each that is added or changed; `removed` when one is removed.",
        of_the_whole=True,
    ),
)

_KEYS = (
    _get("/v1/keys", keys.list_keys, "Payloads of undelivered messages by key", Entries, query=keys.KeysQuery, of_the_whole=True),
    _change("DELETE", "/v1/keys", keys.forget_key, "Delete one undelivered key", query=keys.KeyQuery, refusals=(404,), of_the_whole=True),
)

_ACCESS = (
    _get("/v1/api-keys", api_keys.list_api_keys, "API keys", api_keys.ApiKeys, right="admin", of_the_whole=True),
    _change(
        "POST",
        "/v1/api-keys",
        api_keys.create_api_key,
        "Create an API key; its secret is shown once",
        api_keys.CreatedKey,
        body=api_keys.NewKey,
        status=201,
        of_the_whole=True,
    ),
    _change("DELETE", "/v1/api-keys/{name}", api_keys.revoke_api_key, "Revoke an API key", of_the_whole=True),
    _change("POST", "/v1/tokens", operations.issue_token, "A short-lived token for EventSource", operations.Token, right="any", status=201),
)

_OPERATIONS = (
    Route(method="GET", path="/healthcheck", handler=operations.healthcheck, summary="The database answers", right=None, status=204),
    Route(method="GET", path="/readyz", handler=operations.readyz, summary="The server is ready for requests", right=None, status=204),
    _get(
        "/metrics",
        operations.metrics,
        "Metrics for Prometheus",
        None,
        right="metrics",
        of_the_whole=True,
        media="text/plain",
        refusals=(404,),
    ),
    _change("POST", "/v1/sweep", operations.sweep, "Run maintenance now", MaintenanceResult, of_the_whole=True),
    _get("/v1/sweeps", operations.list_sweeps, "The maintenance tasks, by name", operations.Tasks, right="admin", of_the_whole=True),
    _change("POST", "/v1/sweeps/{sweep}", operations.run_sweep, "Run one maintenance task now", Count, refusals=(404,), of_the_whole=True),
    _get("/v1/doctor", operations.doctor, "Check the database for problems", operations.Findings, right="admin", of_the_whole=True),
)

_PAGES = documents.Documents(lambda: ROUTES)
_DOCUMENTS = (
    _get("/openapi.json", _PAGES.openapi, "This description, for programs", dict[str, Any], right="any"),
    _get("/docs", _PAGES.docs, "This description, for people", None, right="any", media="text/html"),
)


def _tagged(tag: str, routes: tuple[Route, ...]) -> tuple[Route, ...]:
    return tuple(msgspec.structs.replace(route, tag=tag) for route in routes)


ROUTES: tuple[Route, ...] = (
    *_tagged("Work", (*_HOT, _EVENTS[0])),
    *_tagged("Consumers", _CONSUMERS),
    *_tagged("Queues", _QUEUES),
    *_tagged("Messages", _MESSAGES),
    *_tagged("Dead letters", _DEAD),
    *_tagged("Streams", _STREAMS),
    *_tagged("Undelivered keys", (*_KEYS, _EVENTS[1])),
    *_tagged("Access", _ACCESS),
    *_tagged("Operations", _OPERATIONS),
    *_tagged("Documents", _DOCUMENTS),
)
