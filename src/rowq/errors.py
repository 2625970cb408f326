"""Every error rowq raises on purpose: what happened, what to do, and a stable code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar


class RowqError(Exception):
    """The base class. `code` never changes between releases; HTTP sends the same one."""

    code: ClassVar[str] = "internal"


class InvalidArgument(RowqError):
    """A value that no queue accepts: a malformed name, a negative duration, a wrong type."""

    code = "invalid_argument"


class InvalidReceipt(InvalidArgument):
    """Text that was never a receipt of any delivery."""

    code = "invalid_receipt"


class ReceiptRequired(InvalidArgument):
    """The queue settles by receipt only, and an id was given."""

    code = "receipt_required"


class NameReserved(InvalidArgument):
    """The name means the dead letters of another queue."""

    code = "name_reserved"


class PayloadTooLarge(InvalidArgument):
    """The encoded payload is over the queue's limit."""

    code = "payload_too_large"


class PayloadRejected(InvalidArgument):
    """The payload does not match the queue's JSON schema."""

    code = "payload_rejected"


class LeaseLost(RowqError):
    """The receipt is no longer current: the lease expired and the message moved on, or it was already settled."""

    code = "lease_lost"


class QueueFull(RowqError):
    """The queue holds max_depth messages."""

    code = "queue_full"


class NotFound(RowqError):
    """Nothing with that name or id exists."""

    code = "not_found"


class QueueNotFound(NotFound):
    """No queue has that name. `alike`: similar names, which may have been meant."""

    code = "queue_not_found"

    def __init__(self, sentence: str, alike: Sequence[str] = ()) -> None:
        super().__init__(f"{sentence}; did you mean {alike[0]!r}?" if alike else sentence)
        self.sentence = sentence
        self.alike = alike

    def among(self, sees: Callable[[str], bool]) -> QueueNotFound:
        """The same for a caller that may not know of every queue."""
        return QueueNotFound(self.sentence, [name for name in self.alike if sees(name)])


class MessageNotFound(NotFound):
    code = "message_not_found"


class AmbiguousId(RowqError):
    """Messages of several queues have this id: name the queue too."""

    code = "ambiguous_id"


class IdTaken(RowqError):
    """Another message already has the id that the caller chose."""

    code = "id_taken"


class RequestConflict(RowqError):
    """The same idempotency key came with different messages."""

    code = "request_conflict"


class Unauthorized(RowqError):
    """No key, or one that the server does not know."""

    code = "unauthorized"


class Forbidden(RowqError):
    """The key is valid, but may not do this."""

    code = "forbidden"


class TooManyFailures(RowqError):
    """Wrong keys came repeatedly from this address: its requests are refused for a while."""

    code = "too_many_failures"


class ServerUnavailable(RowqError):
    """The server cannot be reached, or is stopping. Nothing is known to have been done; a send may be tried again."""

    code = "server_unavailable"


class StoreError(RowqError):
    """The database could not do it."""

    code = "store_error"


class StoreBusy(StoreError):
    """The database was locked for longer than the timeout. Nothing was written; try again."""

    code = "store_busy"


class StoreUnavailable(StoreError):
    """The database cannot be reached or opened."""

    code = "store_unavailable"


class StoreReadOnly(StoreUnavailable):
    code = "store_read_only"


class StoreCorrupt(StoreUnavailable):
    code = "store_corrupt"


class StoreFull(StoreUnavailable):
    """No room left on the disk. Nothing was written."""

    code = "store_full"


class SchemaMismatch(StoreUnavailable):
    """The tables are of a version that this release does not know."""

    code = "schema_mismatch"


class OutcomeUnknown(StoreError):
    """The commit was sent, but its answer was lost: it may or may not have been written."""

    code = "outcome_unknown"


class BrokerClosed(RowqError):
    """The broker was closed, or belongs to the process that this one was forked from."""

    code = "broker_closed"


class JavaNotFound(RowqError):
    """Spark cannot be started on this machine."""

    code = "java_not_found"


class CheckpointMismatch(RowqError):
    """The checkpoint of a Spark query was written by another stream, or for another database."""

    code = "checkpoint_mismatch"


class LakeError(RowqError):
    """An archive does not match its manifest, or could not be written as planned."""

    code = "lake_error"


class LakeBusy(LakeError):
    """Other processes write to the same lake. Nothing was written; try again."""

    code = "lake_busy"


class LakeMismatch(LakeError):
    """The lake belongs to another database, or one of the two was restored from a backup."""

    code = "lake_mismatch"


class StreamNotFound(NotFound):
    code = "stream_not_found"


class StreamTaken(RowqError):
    """Another query has claimed the stream since: it continues, and this one stops."""

    code = "stream_taken"


class StreamRevoked(RowqError):
    """An operator has returned the stream's batches to their queues: a query that remembers them must not continue."""

    code = "stream_revoked"


class DatabaseRestored(RowqError):
    """The checkpoint is ahead of the database, which was restored from a backup, or is another one."""

    code = "database_restored"


class HeldByStream(RowqError):
    """The message is in a batch of a stream; only the stream, or an operator's revoke or quarantine, can remove it."""

    code = "held_by_stream"


class ConsumerGone(RowqError):
    """The consumer was silent for too long and was considered dead. Register again."""

    code = "consumer_gone"


class StagingLost(RowqError):
    """Messages that were staged to be published are gone. Nothing was published; write them again."""

    code = "staging_lost"
