"""rowq: a message queue that lives in your database. These are its public names."""

from typing import Any

from rowq.async_broker import AsyncBroker
from rowq.broker import Broker
from rowq.clock import Clock, ManualClock, SystemClock
from rowq.connect import AsyncRemoteBroker, RemoteBroker, connect, connect_async, migrate
from rowq.deprecation import warn_renamed
from rowq.engine.maintenance import MaintenanceResult
from rowq.engine.within import AsyncWithin, Within
from rowq.errors import (
    AmbiguousId,
    BrokerClosed,
    CheckpointMismatch,
    ConsumerGone,
    DatabaseRestored,
    Forbidden,
    HeldByStream,
    IdTaken,
    InvalidArgument,
    InvalidReceipt,
    JavaNotFound,
    LakeBusy,
    LakeError,
    LakeMismatch,
    LeaseLost,
    MessageNotFound,
    NameReserved,
    NotFound,
    OutcomeUnknown,
    PayloadRejected,
    PayloadTooLarge,
    QueueFull,
    QueueNotFound,
    ReceiptRequired,
    RequestConflict,
    RowqError,
    SchemaMismatch,
    ServerUnavailable,
    StagingLost,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
    StreamNotFound,
    StreamRevoked,
    StreamTaken,
    TooManyFailures,
    Unauthorized,
)
from rowq.model.access import ApiKey
from rowq.model.failure import Failure, Failures
from rowq.model.member import ConsumerLook, Member, Membership
from rowq.model.message import Delivery, Draft, Event, KvEntry, Message, Outcome, State, Stats, Where
from rowq.model.queue import Policy, Settings
from rowq.model.retry import exponential, linear
from rowq.model.stream import Stream
from rowq.store.dialect import Finding
from rowq.worker.async_consumer import AsyncConsumer
from rowq.worker.async_producer import AsyncProducer
from rowq.worker.consumer import Consumer
from rowq.worker.producer import Producer, Pushed

__version__ = "0.1.0"

__all__ = [
    "AmbiguousId",
    "ApiKey",
    "AsyncBroker",
    "AsyncConsumer",
    "AsyncProducer",
    "AsyncRemoteBroker",
    "AsyncWithin",
    "Broker",
    "BrokerClosed",
    "CheckpointMismatch",
    "Clock",
    "Consumer",
    "ConsumerGone",
    "ConsumerLook",
    "DatabaseRestored",
    "Delivery",
    "Draft",
    "Event",
    "Failure",
    "Failures",
    "Finding",
    "Forbidden",
    "HeldByStream",
    "IdTaken",
    "InvalidArgument",
    "InvalidReceipt",
    "JavaNotFound",
    "KvEntry",
    "LakeBusy",
    "LakeError",
    "LakeMismatch",
    "LeaseLost",
    "MaintenanceResult",
    "ManualClock",
    "Member",
    "Membership",
    "Message",
    "MessageNotFound",
    "NameReserved",
    "NotFound",
    "Outcome",
    "OutcomeUnknown",
    "PayloadRejected",
    "PayloadTooLarge",
    "Policy",
    "Producer",
    "Pushed",
    "QueueFull",
    "QueueNotFound",
    "ReceiptRequired",
    "RemoteBroker",
    "RequestConflict",
    "RowqError",
    "SchemaMismatch",
    "ServerUnavailable",
    "Settings",
    "StagingLost",
    "State",
    "Stats",
    "StoreBusy",
    "StoreCorrupt",
    "StoreError",
    "StoreFull",
    "StoreReadOnly",
    "StoreUnavailable",
    "Stream",
    "StreamNotFound",
    "StreamRevoked",
    "StreamTaken",
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


def __getattr__(name: str) -> Any:
    """Names of the release before."""
    if name == "Swept":
        warn_renamed("rowq.Swept", "rowq.MaintenanceResult")
        globals()[name] = MaintenanceResult  # once a process: `from rowq import Swept` asks twice
        return MaintenanceResult
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
