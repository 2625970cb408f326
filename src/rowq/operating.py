"""What operators do: look at messages, put right what went wrong, set up queues, keys and streams. The other half is broker.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ParamSpec, TypeVar, Unpack

from rowq.engine import Engine
from rowq.model.access import ApiKey
from rowq.model.failure import Failures
from rowq.model.member import DEAD_AFTER, ConsumerLook, Member
from rowq.model.message import BrowseOptions, Duration, Event, KvEntry, KvKey, Message, SettingsOptions, Stats, Where
from rowq.model.queue import Origin, Policy, Settings
from rowq.model.stream import Stream
from rowq.pieces import Progress
from rowq.steps import Ask, Steps
from rowq.store.dialect import Finding
from rowq.upkeep import Swept

P = ParamSpec("P")
T = TypeVar("T")


class Operating:
    """The verbs that a Broker has beside those of its producers and consumers."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._verbs = engine.verbs

    def get(self, id: str, *, queue: str | None = None) -> Message:
        """One message, whatever its state. `queue` tells apart messages of the same own id; without it, two of them are AmbiguousId."""
        return self._look(self._engine.insights.get, id, queue)

    def browse(self, queue: str, **options: Unpack[BrowseOptions]) -> list[Message]:
        """A page of messages, looked at and not taken. `after` is the `cursor` of the last message of the page before.

        `sent_after` (that very moment included) and `sent_before` (not included) are milliseconds since 1970, UTC.
        """
        return self._look(self._engine.insights.browse, queue, **options)

    def failures(self, queue: str, *, limit: int = 100) -> Failures:
        """Why dead letters died: the newest 10,000, put together by reason and by errors that mean the same."""
        return self._look(self._engine.insights.failures, queue, limit=limit)

    def walk(self, queue: str | None = None, *, states: Sequence[str] | None = None) -> Iterator[Message]:
        """Every message (of a queue) as of this moment, one after another, in constant memory."""
        self._engine.check_open()
        return self._engine.insights.walk(queue, states)

    def stats(self, queue: str) -> Stats:
        return self._look(self._engine.insights.stats, queue)

    def queues(self) -> list[Stats]:
        return self._look(self._engine.insights.queues)

    def audit(self, id: str, *, queue: str | None = None) -> list[Event]:
        """What happened to a message, from the first event to the last. `queue` as in `get`."""
        return self._look(self._engine.insights.audit, id, queue)

    def actions(self, queue: str | None = None, *, limit: int = 100) -> list[Event]:
        """What operators did to queues (configured, paused, purged …), the newest first."""
        return self._look(self._engine.insights.actions, queue, limit)

    def keys(self, prefix: KvKey = ()) -> list[KvEntry]:
        """Payloads of undelivered messages, under the keys that their senders chose."""
        return self._look(self._engine.insights.keys, prefix)

    def forget(self, key: KvKey) -> bool:
        """Removes one such key; False if it was not there."""
        return self._drive(self._verbs.forget(key))

    def settings(self, queue: str) -> Settings:
        """What was set on a queue; what is None there follows the defaults."""
        return self._look(self._engine.insights.settings, queue)

    def policy(self, queue: str) -> Policy:
        """What holds for a queue: its settings, and the defaults where nothing is set."""
        return self._look(self._engine.insights.policy, queue)

    def origins(self, queue: str) -> dict[str, Origin]:
        """Where each setting of a queue gets its value from: "queue", "server" (the broker's `defaults`) or "default"."""
        return self._look(self._engine.insights.origins, queue)

    def configure(self, queue: str, **settings: Unpack[SettingsOptions]) -> Settings:
        """Changes settings of a queue; None goes back to the default. Returns all that is set."""
        return self._drive(self._verbs.configure(queue, dict(settings)))

    def pause(self, queue: str) -> None:
        """Nobody receives from it until `resume`; leases and TTLs run on."""
        self._drive(self._verbs.pause(queue))

    def resume(self, queue: str) -> None:
        self._drive(self._verbs.resume(queue))

    def delete_queue(self, queue: str) -> None:
        """Removes its messages in every state, and its settings."""
        self._drive(self._verbs.delete_queue(queue))

    def purge(self, queue: str, *, states: Sequence[str] | None = None, progress: Progress | None = None) -> int:
        """Removes messages that wait (ready, scheduled, blocked), or those of the states named. Returns how many."""
        return self._drive(self._verbs.purge(queue, states, progress))

    def delete(self, id: str, *, queue: str | None = None) -> None:
        """Removes one message, whatever its state. `queue` as in `get`."""
        self._drive(self._verbs.delete(id, queue))

    def redrive(
        self,
        queue: str,
        *,
        ids: Iterable[str] | None = None,
        where: Where | None = None,
        limit: int | None = None,
        rate: float | None = None,
        progress: Progress | None = None,
    ) -> int:
        """Dead letters back into their queue: those named, those that match, or all; at most `rate` a second. Returns how many."""
        return self._drive(self._verbs.redrive(queue, ids, where, limit, rate, progress))

    def delete_dead(
        self,
        queue: str,
        *,
        ids: Iterable[str] | None = None,
        where: Where | None = None,
        limit: int | None = None,
        rate: float | None = None,
        progress: Progress | None = None,
    ) -> int:
        """Removes dead letters for good: those named, or those that match; `purge` removes all. Returns how many."""
        return self._drive(self._verbs.delete_dead(queue, ids, where, limit, rate, progress))

    def consumers(self, queue: str, *, dead_after: Duration = DEAD_AFTER) -> list[Member]:
        """Those that are alive, the oldest first."""
        return self._drive(self._verbs.consumers(queue, dead_after))

    def all_consumers(self, *, dead_after: Duration = DEAD_AFTER) -> list[ConsumerLook]:
        """Who takes messages, of all queues: registered, or known by what it holds; with how many each has now. A thousand at most."""
        return self._drive(self._verbs.all_consumers(dead_after))

    def streams(self) -> list[Stream]:
        """Who takes messages in numbered batches (Spark queries do), and what each holds."""
        return self._look(self._engine.insights.streams)

    def revoke_stream(self, name: str) -> int:
        """Sends all that a stream holds back to its queues; its query needs a fresh checkpoint then. Returns how many messages."""
        return self._drive(self._verbs.revoke_stream(name))

    def quarantine(self, stream: str, batch: int, ids: Iterable[str], *, reason: str | None = None) -> int:
        """Makes messages of a stream's batch dead letters; the batch goes on without them. Returns how many."""
        return self._drive(self._verbs.quarantine(stream, batch, ids, reason))

    def create_key(self, name: str, *, scopes: Iterable[str], queues: Iterable[str] = ("*",)) -> str:
        """A key to the server. Returns its secret, which is shown this once; scopes are send, receive, admin and metrics."""
        return self._drive(self._verbs.create_key(name, scopes, queues))

    def api_keys(self) -> list[ApiKey]:
        return self._look(self._engine.insights.api_keys)

    def revoke_key(self, name: str) -> None:
        """Servers stop to accept it within two seconds."""
        self._drive(self._verbs.revoke_key(name))

    def sweep(self) -> Swept:
        """Does at once what time has made necessary, as the background upkeep does every second."""
        return self._drive(self._engine.upkeep.sweep())

    def run_sweep(self, name: str) -> int:
        """One of its parts alone, such as `expired`; `rowq sweeps` lists them. Returns how many messages it was about."""
        return self._drive(self._engine.sweeps.run(name))

    def doctor(self) -> list[Finding]:
        """What hurts queues on this database, each with what to do."""
        return self._look(self._engine.examine)

    def _drive(self, steps: Steps[T] | Ask[Any, T]) -> T:
        return self._engine.driver.drive(steps)

    def _look(self, function: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        return self._drive(self._verbs.look(function, *arguments, **options))
