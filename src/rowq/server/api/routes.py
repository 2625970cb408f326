"""The table of all routes: what the application serves, and what OpenAPI and the page of documents tell."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from rowq.engine.maintenance import Swept
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
    "Each receipt has a result of its own: `done`; `stale` when another lease holds the message, or it waits again; `not_found` when it is "
    "gone, or the text never was a receipt. Only `done` has changed anything."
)
_SETTLES = (
    ("ack", AckBody, "Done: these deliveries are finished"),
    ("nack", NackBody, "Failed: they come back after their backoff, or die"),
    ("reject", RejectBody, "They can never succeed: dead letters at once"),
    ("reschedule", RescheduleBody, "Later, as if never tried"),
    ("extend", ExtendBody, "More time: the leases run from now"),
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
        note="With an `Idempotency-Key` a retry is answered as the first try was, and sends nothing again.",
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
        note="With `wait_ms` it is answered when a message comes, and with none when the time is over. Dead letters are received from "
        "the queue's name with `.dlq` behind it.",
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
    _get(f"{_QUEUE}/consumers", consumers.list_consumers, "Who is alive", consumers.Consumers, query=consumers.ConsumersQuery),
    _get("/v1/consumers", consumers.list_all_consumers, "Who takes messages", consumers.AllConsumers, query=consumers.ConsumersQuery),
    _consume(
        "POST",
        f"{_QUEUE}/consumers",
        consumers.register_consumer,
        "A new consumer of a queue",
        Membership,
        body=consumers.RegisterBody,
        status=201,
        note="It is alive for as long as it beats. Its place among those that are, in the order of their birth, is its share.",
    ),
    _consume(
        "POST",
        f"{_QUEUE}/consumers/{{consumer_id}}/beat",
        consumers.beat,
        "A consumer is alive, and learns its share of now",
        Membership,
        body=consumers.BeatBody,
        refusals=(410,),
    ),
    _consume("DELETE", f"{_QUEUE}/consumers/{{consumer_id}}", consumers.unregister_consumer, "A consumer takes its leave"),
)

_QUEUES = (
    _get("/v1/queues", queues.list_queues, "All queues: how many messages are in which state", Queues),
    _get(_QUEUE, queues.get_queue, "A queue: depth, settings, and what holds", QueueLook),
    _get(f"{_QUEUE}/stats", queues.get_stats, "How many messages of a queue are in which state", Stats),
    _get(f"{_QUEUE}/policy", queues.get_policy, "What holds for a queue: its settings over the defaults", SettingsBody),
    _get(
        "/v1/settings",
        queues.list_settings,
        "What queues set, and the defaults",
        queues.AllSettings,
        query=queues.SettingsQuery,
        refusals=(404,),
    ),
    _change("PUT", _QUEUE, queues.configure, "Change settings; null goes back to the default", SettingsBody, body=SettingsBody),
    _change("DELETE", _QUEUE, queues.delete_queue, "Remove a queue with its messages and settings", refusals=(409,)),
    _change("POST", f"{_QUEUE}/pause", queues.pause, "Nobody receives until it is resumed"),
    _change("DELETE", f"{_QUEUE}/pause", queues.resume, "Resume"),
    _change(
        "DELETE",
        f"{_QUEUE}/messages",
        queues.purge,
        "Remove messages that wait, or those of the states named",
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
    _get(f"{_QUEUE}/messages", messages.browse, "A page of messages, looked at and not taken", Messages, query=messages.BrowseQuery),
    _get(
        "/v1/messages",
        messages.walk,
        "Every message as of this moment, one a line",
        MessageLook,
        query=messages.WalkQuery,
        media=LINES,
        refusals=(404,),
    ),
    _get(
        "/v1/messages/{id}", messages.get_message, "One message, wherever it is", MessageLook, query=messages.MessageQuery, refusals=(409,)
    ),
    _change("DELETE", "/v1/messages/{id}", messages.delete_message, "Remove one message", query=messages.MessageQuery, refusals=(409,)),
    _get("/v1/messages/{id}/audit", messages.audit, "What happened to a message", Events, query=messages.MessageQuery, refusals=(409,)),
)

_DEAD = (
    _get(f"{_QUEUE}/dead", messages.browse_dead, "A page of dead letters", Messages, query=messages.DeadQuery),
    _get(f"{_QUEUE}/dead/failures", dead.list_failures, "Why dead letters died", Failures, query=dead.FailuresQuery),
    _change("DELETE", f"{_QUEUE}/dead", dead.purge_dead, "Remove all dead letters", Count),
    _change("POST", f"{_QUEUE}/dead/redrive", dead.redrive, "Dead letters back into their queue", Count, body=RedriveBody, lasts=True),
    _change("POST", f"{_QUEUE}/dead/removal", dead.remove, "Remove some dead letters", Count, body=RedriveBody, lasts=True),
)

_STREAMS = (
    _get("/v1/streams", streams.list_streams, "Who takes messages in numbered batches", streams.Streams, right="admin", of_the_whole=True),
    _change(
        "POST",
        "/v1/streams/{stream}/revocation",
        streams.revoke_stream,
        "All that a stream holds goes back to its queues",
        Count,
        of_the_whole=True,
        note="Its query cannot go on with the checkpoint that it has: it starts with a fresh one.",
    ),
    _change(
        "POST",
        "/v1/streams/{stream}/quarantine",
        streams.quarantine,
        "Messages of a batch become dead letters",
        Count,
        body=streams.QuarantineBody,
        of_the_whole=True,
        note="The batch goes on without them.",
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
        note="Goes on until the client leaves. At most `in_flight` deliveries are unsettled at any time; settling one makes room for the "
        "next. Deliveries are settled as always, with their receipts.",
    ),
    _get(
        "/v1/keys/watch",
        events.stream_keys,
        "Undelivered keys as events",
        None,
        query=events.WatchQuery,
        media=EVENTS,
        events={"set": EntryBody, "removed": events.RemovedKey, "ping": None, "problem": Problem},
        note="`set` for each key that is there and for each that comes or changes; `removed` when one is gone.",
        of_the_whole=True,
    ),
)

_KEYS = (
    _get("/v1/keys", keys.list_keys, "Payloads of undelivered messages by key", Entries, query=keys.KeysQuery, of_the_whole=True),
    _change("DELETE", "/v1/keys", keys.forget_key, "Remove one such key", query=keys.KeyQuery, refusals=(404,), of_the_whole=True),
)

_ACCESS = (
    _get("/v1/api-keys", api_keys.list_api_keys, "Keys to the server", api_keys.ApiKeys, right="admin", of_the_whole=True),
    _change(
        "POST",
        "/v1/api-keys",
        api_keys.create_api_key,
        "Make a key; its secret is told once",
        api_keys.CreatedKey,
        body=api_keys.NewKey,
        status=201,
        of_the_whole=True,
    ),
    _change("DELETE", "/v1/api-keys/{name}", api_keys.revoke_api_key, "Revoke a key", of_the_whole=True),
    _change("POST", "/v1/tokens", operations.issue_token, "A short-lived token for EventSource", operations.Token, right="any", status=201),
)

_OPERATIONS = (
    Route(method="GET", path="/healthcheck", handler=operations.healthcheck, summary="The database answers", right=None, status=204),
    Route(method="GET", path="/readyz", handler=operations.readyz, summary="Requests are welcome", right=None, status=204),
    _get(
        "/metrics",
        operations.metrics,
        "Figures for Prometheus",
        None,
        right="metrics",
        of_the_whole=True,
        media="text/plain",
        refusals=(404,),
    ),
    _change("POST", "/v1/sweep", operations.sweep, "Do at once what time has made necessary", Swept, of_the_whole=True),
    _get("/v1/sweeps", operations.list_sweeps, "The parts of that, by name", operations.Sweeps, right="admin", of_the_whole=True),
    _change("POST", "/v1/sweeps/{sweep}", operations.run_sweep, "Do one of these parts at once", Count, refusals=(404,), of_the_whole=True),
    _get("/v1/doctor", operations.doctor, "What hurts queues on this database", operations.Findings, right="admin", of_the_whole=True),
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
