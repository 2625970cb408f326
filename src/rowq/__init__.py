"""rowq: a message queue that lives in your database. These are its public names."""

from rowq.async_broker import AsyncBroker
from rowq.backoff import exponential, linear
from rowq.broker import Broker
from rowq.client.async_broker import AsyncRemoteBroker
from rowq.client.broker import RemoteBroker
from rowq.clock import Clock, ManualClock, SystemClock
from rowq.connect import connect, connect_async, migrate
from rowq.errors import (
    BrokerClosed,
    Forbidden,
    IdTaken,
    InvalidArgument,
    InvalidReceipt,
    LeaseLost,
    MessageNotFound,
    NameReserved,
    NotFound,
    OutcomeUnknown,
    PayloadRejected,
    PayloadTooLarge,
    QueueFull,
    QueueNotFound,
    RequestConflict,
    RowqError,
    SchemaMismatch,
    ServerUnavailable,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
    TooManyFailures,
    Unauthorized,
)
from rowq.model.access import ApiKey
from rowq.model.message import Delivery, Draft, Event, KvEntry, Message, Outcome, State, Stats, Where
from rowq.model.queue import Policy, Settings
from rowq.store.dialect import Finding
from rowq.upkeep import Swept
from rowq.within import Within

__version__ = "0.1.0"

__all__ = [
    "ApiKey",
    "AsyncBroker",
    "AsyncRemoteBroker",
    "Broker",
    "BrokerClosed",
    "Clock",
    "Delivery",
    "Draft",
    "Event",
    "Finding",
    "Forbidden",
    "IdTaken",
    "InvalidArgument",
    "InvalidReceipt",
    "KvEntry",
    "LeaseLost",
    "ManualClock",
    "Message",
    "MessageNotFound",
    "NameReserved",
    "NotFound",
    "Outcome",
    "OutcomeUnknown",
    "PayloadRejected",
    "PayloadTooLarge",
    "Policy",
    "QueueFull",
    "QueueNotFound",
    "RemoteBroker",
    "RequestConflict",
    "RowqError",
    "SchemaMismatch",
    "ServerUnavailable",
    "Settings",
    "State",
    "Stats",
    "StoreBusy",
    "StoreCorrupt",
    "StoreError",
    "StoreFull",
    "StoreReadOnly",
    "StoreUnavailable",
    "Swept",
    "SystemClock",
    "TooManyFailures",
    "Unauthorized",
    "Where",
    "Within",
    "__version__",
    "connect",
    "connect_async",
    "exponential",
    "linear",
    "migrate",
]
