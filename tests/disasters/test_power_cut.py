"""The power fails under a running load: what is promised to be on the disk is there, what is not is lost, and the tables are whole."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import psycopg
import pytest

import rowq
from tests.disasters.machine import Machine, new_machine
from tests.disasters.promised import ROUNDS, begin_living, check, each, names
from tests.disasters.survival import undone_of
from tests.docs.promises import Promise, promises
from tests.rivals.process import Rival, Start
from tests.support.database import KINDS
from tests.support.patience import eventually

pytestmark = pytest.mark.timeout(240 * ROUNDS)

PROMISES = promises("power loss")

Begin = Callable[[str], Machine]


@pytest.fixture(scope="module")
def machine_with() -> Iterator[Begin]:
    """One with each database, begun when it is first asked for."""
    begun: dict[str, Machine] = {}

    def begin(kind: str) -> Machine:
        if kind not in begun:
            begun[kind] = new_machine(kind)
        return begun[kind]

    yield begin
    for machine in begun.values():
        machine.remove()


def cut_power(machine: Machine, start: Start, url: str, how: tuple[str, ...], choose: random.Random, *, often: bool) -> tuple[Rival, int]:
    rival, moment = begin_living(start, url, how, choose, often=often)
    return rival, machine.lose_power(rival, moment, choose)


@each([promise for promise in PROMISES if not promise.destroys])
def test_what_was_answered_survives_a_power_cut_as_promised(machine_with: Begin, start: Start, promise: Promise, often: bool) -> None:
    machine = machine_with(promise.kind)
    url = machine.set(promise.setting)
    choose = random.Random(str(promise))
    check(promise, lambda how: cut_power(machine, start, url, how, choose, often=often), machine.url, often=often)


@pytest.mark.prove("a server on a drive of its own, 10 s, to show that a promise that is not made is not kept")
@pytest.mark.parametrize("promise", [promise for promise in PROMISES if promise.destroys], ids=str)
def test_a_server_that_never_syncs_loses_what_was_answered_or_everything(start: Start, promise: Promise) -> None:
    machine = new_machine(promise.kind)

    def is_harmed() -> bool:
        try:
            rival, until = cut_power(machine, start, machine.set(promise.setting), (), random.Random(str(promise)), often=True)
            return bool(+undone_of(rival, machine.url, promise.kept, until))
        except (AssertionError, RuntimeError, rowq.RowqError, psycopg.Error):
            return True  # it does not even start, or what it finds makes no sense

    try:
        assert is_harmed()
    finally:
        machine.remove()


def test_the_first_send_to_a_file_that_was_not_there_is_kept(machine_with: Begin, start: Start) -> None:
    machine = machine_with("sqlite")
    url = machine.url.replace("jobs.db", "new.db")
    rival = start("obeying", url, "alone", package="tests.rivals")
    sent: list[str] = []
    machine.lose_power(rival, lambda: sent.append(rival.ask("send", ["q", "first"], {})), random.Random("first"))
    with rowq.connect(url) as broker:
        assert [message.id for message in broker.walk("q")] == sent


AS_ANOTHER = pytest.mark.prove(
    "a machine of its own, 10 s; the at-most-once queue of test_what_was_answered_survives_a_power_cut stands for it"
)


@pytest.mark.parametrize("kind", ["sqlite", *(pytest.param(kind, marks=AS_ANOTHER) for kind in KINDS[1:])])
def test_what_was_handed_out_at_most_once_is_not_handed_out_again(machine_with: Begin, start: Start, kind: str) -> None:
    """With the usual settings: nothing that is synced anyway comes after it, and its consumer died with the machine."""
    machine = machine_with(kind)
    url = machine.set("")
    queue = next(names)
    with rowq.connect(url, maintenance=False) as broker:
        broker.configure(queue, delivery="at_most_once", lease=1)
        id = broker.send(queue, "once")
    rival = start("obeying", url, "alone", package="tests.rivals")
    handed_out: list[str] = []

    def receive() -> None:
        handed_out.extend(delivery["id"] for delivery in rival.ask("receive", [queue], {}))

    machine.lose_power(rival, receive, random.Random(kind))
    assert handed_out == [id]
    with rowq.connect(url, maintenance=False) as broker:
        eventually(lambda: broker.maintain() and broker.get(id).state == "dead", 60)
        assert broker.receive(queue) == []
