"""rowq: a message queue that lives in your database. These are its public names."""

from rowq.async_broker import AsyncBroker
from rowq.backoff import exponential, linear
from rowq.broker import Broker
from rowq.client.async_broker import AsyncRemoteBroker
from rowq.client.broker import RemoteBroker
from rowq.clock import Clock, ManualClock, SystemClock
from rowq.connect import connect, connect_async, migrate
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
from rowq.model.stream import Stream
from rowq.store.dialect import Finding
from rowq.upkeep import Swept
from rowq.within import AsyncWithin, Within
from rowq.workers.async_consumer import AsyncConsumer
from rowq.workers.async_producer import AsyncProducer
from rowq.workers.consumer import Consumer
from rowq.workers.producer import Producer, Pushed

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
