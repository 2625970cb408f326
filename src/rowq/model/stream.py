"""Streams: consumers that take messages in numbered batches and settle whole batches, as a Spark query does."""

from __future__ import annotations

import re

import msgspec

from rowq.errors import DatabaseRestored, InvalidArgument, LeaseLost, StreamRevoked, StreamTaken

UNTIL_SETTLED = 253_370_764_800_000
"""The end of a stream's lease: the year 9999. Only the ledger settles what a stream holds, and every calendar can still represent the
date."""

_NAME = re.compile(r"[A-Za-z0-9._:-]{1,100}")


def is_held_by_stream(lease_until: int | None) -> bool:
    return lease_until is not None and lease_until >= UNTIL_SETTLED


class Stream(msgspec.Struct, frozen=True, kw_only=True):
    """A stream in the ledger. Batches are numbered from 1 on, and no number is used twice."""

    name: str
    queues: list[str]
    epoch: int
    """How often it was claimed or revoked: only the holder of the newest epoch may continue."""
    acked_batch: int
    """Everything up to this batch is settled."""
    next_batch: int
    floor: int
    """The batch at which the last revoke ended everything before; 0 without one."""
    batches: int
    """How many batches are taken and not settled."""
    messages: int
    """How many messages are in them."""
    created_at: int
    beat_at: int
    """When its holder's last heartbeat arrived."""

    def check(self, epoch: int | None, after: int) -> None:
        """Raises an error if a holder of that epoch, whose checkpoint ends there, must not continue; None holds nothing, and only reads."""
        if after < self.floor:
            raise StreamRevoked(
                f"the stream {self.name!r} was revoked: its batches before {self.floor} went back to their queues, and the checkpoint "
                f"ends at {after}. Start the query with a fresh checkpoint, and a new name for a sink that remembers batches, "
                "or once with Spark's failOnDataLoss=false"
            )
        if epoch is not None:
            self.check_epoch(epoch)
        if after >= self.next_batch:
            raise DatabaseRestored(
                f"the checkpoint of the stream {self.name!r} ends at batch {after}, and the database has given {self.next_batch - 1}: "
                "it was restored from a backup, or is another one. Start the query with a fresh checkpoint"
            )
        if after < self.acked_batch:
            raise LeaseLost(
                f"the checkpoint of the stream {self.name!r} ends at batch {after}, and everything up to {self.acked_batch} is settled: "
                "it is an old copy. Start the query with a fresh checkpoint, which continues after that"
            )

    def check_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            raise StreamTaken(
                f"the stream {self.name!r} was claimed by another query since (epoch {self.epoch}, and this one has {epoch}): "
                "run one query for each streamId"
            )


class StreamClaim(msgspec.Struct, frozen=True):
    """What the claim of a stream gives: the epoch to name from now on, and where the ledger is."""

    epoch: int
    acked: int
    floor: int


class Ahead(msgspec.Struct, frozen=True):
    """What may be leased in advance: up to a number of batches of `most` messages, and none once there are `enough` messages."""

    batches: int
    most: int
    most_bytes: int
    enough: int | None = None


class Slice(msgspec.Struct, frozen=True):
    """Some messages of a batch: those at the places from `first` to `last`. `count` of them are to be read; quarantined ones keep their
    places, and are not counted."""

    stream: str
    batch: int
    first: int
    last: int
    count: int


def check_stream_name(name: object) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidArgument(f"{name!r} is not a stream name: use 1 to 100 of the characters A-Z a-z 0-9 . _ : -")
    return name


def check_batch(batch: object) -> int:
    if type(batch) is not int or not 1 <= batch < 1 << 62:
        raise InvalidArgument(f"{batch!r} is not a batch number: these are whole numbers from 1 on")
    return batch


def consumer_of(stream: str) -> str:
    """The consumer name of a stream's leases."""
    return f"stream:{stream}"
