"""The examples in the API's description. The tests send each of them."""

from __future__ import annotations

from typing import Any

import msgspec

from rowq.model.message import Stats

_SENT_AT = 1_767_225_600_000
_ID = "019b76da-a800-7000-8000-00000000002a"
_RECEIPT = f"{_ID}.1f0c5a7be8d24396"
_CONSUMER = "5f0c1d5e-8f55-4b7c-9d1e-6a2b7c3d4e5f"

PATHS = {"queue": "emails", "id": "welcome-42", "name": "worker", "stream": "orders-to-lake", "consumer_id": _CONSUMER, "sweep": "expired"}

QUERIES: dict[str, dict[str, str]] = {
    "stream_deliveries": {"in_flight": "5"},
    "purge": {"state": "scheduled"},
    "list_actions": {"limit": "10"},
    "browse": {"state": "ready", "limit": "10"},
    "walk": {"queue": "emails"},
    "browse_dead": {"limit": "10"},
    "list_keys": {"prefix": "customers"},
    "forget_key": {"key": '["customers",42]'},
    "stream_keys": {"prefix": "customers"},
}

BODIES: dict[str, dict[str, Any]] = {
    "send": {
        "one": {"payload": {"to": "ada@example.com"}, "id": "welcome-42"},
        "several": {"messages": [{"payload": "first"}, {"payload_base64": "AAEC", "priority": 5, "delay_ms": 1000}]},
        "with options": {
            "payload": {"to": "grace@example.com"},
            "key": "welcome-43",
            "headers": {"trace": "4bf92f35"},
            "ttl_ms": 86_400_000,
            "max_attempts": 3,
            "backoff_ms": {"kind": "exponential", "base_ms": 1000},
            "keys_if_undelivered": [["customers", 43]],
        },
    },
    "receive": {
        "usual": {"max": 10, "wait_ms": 500, "lease_ms": 60_000},
        "a share": {"max": 10, "consumer": _CONSUMER, "share": [0, 3]},
    },
    "register_consumer": {"usual": {"id": _CONSUMER, "dead_after_ms": 5000}},
    "beat": {"usual": {"dead_after_ms": 5000, "remove_dead": True}},
    "ack": {"usual": {"receipts": [_RECEIPT]}},
    "nack": {"usual": {"receipts": [_RECEIPT], "reason": "the mail server is down", "delay_ms": 5000}},
    "reject": {"usual": {"receipts": [_RECEIPT], "reason": "no such address"}},
    "reschedule": {"usual": {"receipts": [_RECEIPT], "delay_ms": 3_600_000}},
    "extend": {"usual": {"receipts": [_RECEIPT], "lease_ms": 60_000}},
    "configure": {"usual": {"lease_ms": 60_000, "max_attempts": 3, "backoff_ms": [1000, 10_000], "max_depth": None}},
    "redrive": {"usual": {"reason": "rejected", "limit": 100}},
    "remove": {"usual": {"ids": ["welcome-41", "welcome-42"]}},
    "quarantine": {"usual": {"batch": 1, "ids": ["order-42"], "reason": "cannot be parsed"}},
    "create_api_key": {"usual": {"name": "sender", "scopes": ["send"], "queues": ["emails", "orders.*"]}},
}

_STATS = msgspec.to_builtins(Stats(queue="emails", ready=1, oldest_ready_at=_SENT_AT))
_LOOK = {
    "id": "welcome-42",
    "queue": "emails",
    "state": "ready",
    "attempts": 0,
    "sent_at": _SENT_AT,
    "priority": 0,
    "headers": {},
    "cursor": "WyJyZWFkeSIsMCw0Ml0",
    "payload": {"to": "ada@example.com"},
}
DELIVERY = {
    "id": "welcome-42",
    "receipt": _RECEIPT,
    "queue": "emails",
    "attempt": 1,
    "lease_until": _SENT_AT + 90_000,
    "sent_at": _SENT_AT,
    "headers": {},
    "priority": 0,
    "key": None,
    "group": None,
    "payload": {"to": "ada@example.com"},
}
_DONE = {"results": [{"receipt": _RECEIPT, "outcome": "done"}]}
_KEY = {"key": ["customers", 42], "written_at": _SENT_AT, "id": _ID, "value": {"to": "ada@example.com"}}

_STREAM = {
    "name": "orders-to-lake",
    "queues": ["orders"],
    "epoch": 3,
    "acked_batch": 6,
    "next_batch": 8,
    "floor": 0,
    "batches": 1,
    "messages": 1000,
    "created_at": _SENT_AT,
    "beat_at": _SENT_AT + 90_000,
}

ANSWERS: dict[str, Any] = {
    "send": {"id": "welcome-42"},
    "receive": {"deliveries": [DELIVERY]},
    "ack": _DONE,
    "nack": _DONE,
    "reject": _DONE,
    "reschedule": _DONE,
    "extend": {"results": [{"receipt": _RECEIPT, "outcome": "done", "lease_until": _SENT_AT + 120_000}]},
    "list_consumers": {"consumers": [{"id": _CONSUMER, "index": 0, "born_at": _SENT_AT, "beat_at": _SENT_AT + 90_000}]},
    "list_all_consumers": {
        "consumers": [
            {
                "queue": "emails",
                "id": _CONSUMER,
                "alive": True,
                "in_flight": 3,
                "born_at": _SENT_AT,
                "beat_at": _SENT_AT + 90_000,
                "leased_at": _SENT_AT + 89_000,
            }
        ]
    },
    "register_consumer": {"id": _CONSUMER, "index": 2, "count": 3},
    "beat": {"id": _CONSUMER, "index": 1, "count": 2},
    "list_queues": {"queues": [_STATS]},
    "get_stats": _STATS,
    "list_settings": {"defaults": {"lease_ms": 60_000}, "queues": [{"queue": "emails", "settings": {"max_attempts": 3}}]},
    "configure": {"lease_ms": 60_000, "max_attempts": 3, "backoff_ms": [1000, 10_000]},
    "purge": {"count": 3},
    "browse": {"messages": [_LOOK], "next": None},
    "get_message": _LOOK,
    "audit": {
        "events": [
            {"at": _SENT_AT, "event": "enqueued", "queue": "emails", "id": "welcome-42", "attempt": None, "actor": None, "detail": None}
        ]
    },
    "list_failures": {
        "failures": [
            {
                "reason": "rejected",
                "fingerprint": "no user <value>",
                "count": 3,
                "first_at": _SENT_AT,
                "last_at": _SENT_AT + 90_000,
                "error": "no user 'ada'",
                "id": "welcome-42",
            }
        ],
        "looked_at": 3,
        "more": False,
    },
    "purge_dead": {"count": 3},
    "redrive": {"count": 3},
    "remove": {"count": 2},
    "list_streams": {"streams": [_STREAM]},
    "revoke_stream": {"count": 3},
    "quarantine": {"count": 1},
    "list_keys": {"keys": [_KEY]},
    "create_api_key": {"name": "sender", "secret": "rowq_…"},
    "list_sweeps": {"sweeps": [{"name": "expired", "summary": "messages at the end of their TTL leave", "every_ms": 1000}]},
    "run_sweep": {"count": 3},
    "sweep": {"due": 0, "lease_expired": 0, "expired": 0, "retired": 0},
}

EVENTS: dict[str, str] = {
    "stream_deliveries": "event: delivery\nid: welcome-42\ndata: {…}\n\nevent: ping\ndata: {}\n\n",
    "stream_keys": 'event: set\ndata: {"key":["customers",42],…}\n\nevent: removed\ndata: {"key":["customers",42]}\n\n',
}
