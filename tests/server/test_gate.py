"""The gate: who comes in, who does not, and what a key may do."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest

from rowq import Forbidden, ManualClock, TooManyFailures, Unauthorized
from rowq.model.access import ApiKey, KnownKey, Right, Scope, digest_of
from rowq.server.auth.authentication import ANYBODY, Gate
from rowq.server.auth.lockout import FAILURES, LOCKED_FOR, MOST_ADDRESSES, Lockout
from tests.support.patience import eventually_async

SECRET = "rowq_secret"  # noqa: S105


class Monotonic:
    """Running time that stands still until it is moved."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def known(name: str, secret: str, *scopes: Scope, queues: tuple[str, ...] = ("*",)) -> KnownKey:
    return ApiKey(name=name, scopes=scopes or ("admin",), queues=queues), digest_of(secret)


def request(*headers: tuple[str, str], method: str = "GET", query: str = "", address: str | None = "10.0.0.1") -> dict[str, Any]:
    return {
        "type": "http",
        "method": method,
        "path": "/v1/queues",
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers],
        "client": None if address is None else (address, 4711),
    }


def basic(name: str, secret: str) -> tuple[str, str]:
    return "authorization", "Basic " + base64.b64encode(f"{name}:{secret}".encode()).decode()


@pytest.fixture
def time() -> Monotonic:
    return Monotonic()


@pytest.fixture
def gate(time: Monotonic) -> Gate:
    return Gate([known("worker", SECRET, "send", "receive")], monotonic=time)


def test_the_same_secret_in_configuration_and_database_opens_what_the_database_says() -> None:
    """A client's key that was left in the environment of the server must not make its owner an admin."""
    gate = Gate([known("env", "s3cret", "send", "receive", "admin", "metrics")])
    gate.learn([known("billing", "s3cret", "send", queues=("invoices.*",))])
    identity = gate.admit(request(("x-api-key", "s3cret")))
    assert identity.name == "billing"
    with pytest.raises(Forbidden):
        identity.check("admin")
    gate.learn([])
    assert gate.admit(request(("x-api-key", "s3cret"))).name == "env"


class TestWithoutKeys:
    @pytest.mark.parametrize("host", ["localhost", "LocalHost:8080", "127.0.0.1", "127.0.0.1:8080", "127.8.8.8", "[::1]", "[::1]:8080"])
    def test_this_machine_may_ask(self, host: str) -> None:
        assert Gate().admit(request(("host", host))) is ANYBODY

    @pytest.mark.parametrize(
        "host",
        [
            "queue.example.com",
            "localhost.example.com",
            "localhost@example.com",
            "127.0.0.1.example.com",
            "10.0.0.1",
            "0.0.0.0",  # noqa: S104
            "[::]",
            "::1",
            "",
            "localhost:http",
            "localhost:99999",
            "localhost:0",
            "localhost/x",
            "localhost#x",
            "[::1",
            "\xe4",
            "x" * 1_000,
            "2130706433",
        ],
    )
    def test_whoever_names_us_otherwise_may_not(self, host: str) -> None:
        with pytest.raises(Forbidden):
            Gate().admit(request(("host", host)))

    def test_a_request_that_names_no_host_is_refused(self) -> None:
        with pytest.raises(Forbidden):
            Gate().admit(request())

    def test_a_second_host_does_not_hide_the_first(self) -> None:
        with pytest.raises(Forbidden):
            Gate().admit(request(("host", "example.com"), ("host", "localhost")))

    @pytest.mark.parametrize("origin", ["http://localhost", "http://localhost:3000", "https://127.0.0.1", "http://[::1]:8080"])
    def test_a_page_of_this_machine_may_ask(self, origin: str) -> None:
        assert Gate().admit(request(("host", "localhost"), ("origin", origin))) is ANYBODY

    @pytest.mark.parametrize(
        "origin", ["https://example.com", "null", "", "file://", "http://localhost.example.com", "ftp://localhost", "localhost"]
    )
    def test_a_page_of_another_site_may_not(self, origin: str) -> None:
        with pytest.raises(Forbidden):
            Gate().admit(request(("host", "localhost"), ("origin", origin)))

    def test_credentials_are_ignored(self) -> None:
        assert Gate().admit(request(("host", "localhost"), ("x-api-key", "anything"))).name is None

    @pytest.mark.parametrize("right", ["send", "receive", "look", "admin", "metrics"])
    def test_anybody_may_do_everything(self, right: Right) -> None:
        ANYBODY.check(right)
        ANYBODY.check(right, "orders")
        assert ANYBODY.sees_all and ANYBODY.reaches("orders") and ANYBODY.actor is None


class TestCredentials:
    @pytest.mark.parametrize(
        "header",
        [
            ("x-api-key", SECRET),
            ("authorization", f"Bearer {SECRET}"),
            ("authorization", f"bearer  {SECRET}"),
            basic("worker", SECRET),
        ],
    )
    def test_a_key_opens_in_every_way_it_may_be_sent(self, gate: Gate, header: tuple[str, str]) -> None:
        identity = gate.admit(request(("host", "queue.example.com"), header))
        assert (identity.name, identity.actor) == ("worker", "key:worker")

    @pytest.mark.parametrize(
        "header",
        [
            ("x-api-key", "wrong"),
            ("x-api-key", ""),
            ("authorization", "Bearer wrong"),
            ("authorization", "Bearer"),
            ("authorization", f"Digest {SECRET}"),
            ("authorization", SECRET),
            ("authorization", "Basic !!!"),
            ("authorization", ""),
            basic("worker", "wrong"),
            basic("somebody", SECRET),
            basic("", SECRET),
        ],
    )
    def test_anything_else_does_not(self, gate: Gate, header: tuple[str, str]) -> None:
        with pytest.raises(Unauthorized):
            gate.admit(request(("host", "localhost"), header))

    def test_no_credentials_say_how_to_send_some(self, gate: Gate) -> None:
        with pytest.raises(Unauthorized, match="X-API-Key"):
            gate.admit(request(("host", "localhost")))

    def test_a_client_without_an_address_is_still_asked_for_its_key(self, gate: Gate) -> None:
        assert gate.admit(request(("x-api-key", SECRET), address=None)).name == "worker"
        with pytest.raises(Unauthorized):
            gate.admit(request(("x-api-key", "wrong"), address=None))

    def test_a_secret_may_be_any_bytes(self) -> None:
        gate = Gate([known("worker", "schlüssel")])
        scope = request()
        scope["headers"] = [(b"x-api-key", "schlüssel".encode())]
        assert gate.admit(scope).name == "worker"

    def test_a_browser_that_adds_basic_by_itself_is_no_proof_of_a_wish(self, gate: Gate) -> None:
        host, key = ("host", "queue.example.com"), basic("worker", SECRET)
        assert gate.admit(request(host, key, ("origin", "https://queue.example.com"), method="POST"))
        for origin in ("https://evil.example.com", "null"):
            with pytest.raises(Forbidden, match="another site"):
                gate.admit(request(host, key, ("origin", origin), method="POST"))
        assert gate.admit(request(host, ("x-api-key", SECRET), ("origin", "https://app.example.com"), method="POST"))


class TestRights:
    def test_a_right_is_checked_with_the_queue(self) -> None:
        identity = Gate([known("eu", SECRET, "send", queues=("orders.*",))]).admit(request(("x-api-key", SECRET)))
        identity.check("send", "orders.eu")
        assert not identity.sees_all
        assert identity.reaches("orders.eu") and not identity.reaches("invoices")
        with pytest.raises(Forbidden, match="invoices"):
            identity.check("send", "invoices")
        with pytest.raises(Forbidden, match="scope receive"):
            identity.check("receive", "orders.eu")

    def test_without_a_queue_only_the_scope_is_looked_at(self) -> None:
        identity = Gate([known("eu", SECRET, "receive", queues=("orders.*",))]).admit(request(("x-api-key", SECRET)))
        identity.check("look")
        with pytest.raises(Forbidden):
            identity.check("admin")

    def test_a_refusal_names_the_scope_that_is_missing(self, gate: Gate) -> None:
        identity = gate.admit(request(("x-api-key", SECRET)))
        with pytest.raises(Forbidden, match="scope admin"):
            identity.check("admin")
        sender = Gate([known("s", SECRET, "send")]).admit(request(("x-api-key", SECRET)))
        with pytest.raises(Forbidden, match="receive or admin"):
            sender.check("look", "orders")


class TestLockout:
    def guess(self, gate: Gate, address: str = "10.0.0.1") -> None:
        with pytest.raises(Unauthorized):
            gate.admit(request(("x-api-key", "wrong"), address=address))

    def test_whoever_guesses_ten_times_is_not_listened_to_for_a_minute(self, gate: Gate, time: Monotonic) -> None:
        for _ in range(FAILURES):
            self.guess(gate)
        with pytest.raises(TooManyFailures) as refused:
            gate.admit(request(("x-api-key", SECRET)))
        assert getattr(refused.value, "retry_after", None) == 60
        time.seconds = LOCKED_FOR - 0.5
        with pytest.raises(TooManyFailures):
            gate.admit(request(("x-api-key", SECRET)))
        time.seconds = LOCKED_FOR
        assert gate.admit(request(("x-api-key", SECRET))).name == "worker"
        self.guess(gate)

    def test_others_are_listened_to_meanwhile(self, gate: Gate) -> None:
        for _ in range(FAILURES):
            self.guess(gate)
        assert gate.admit(request(("x-api-key", SECRET), address="10.0.0.2")).name == "worker"

    def test_failures_far_apart_are_no_guessing(self, gate: Gate, time: Monotonic) -> None:
        for _ in range(3 * FAILURES):
            self.guess(gate)
            time.seconds += 7
        assert gate.admit(request(("x-api-key", SECRET))).name == "worker"

    def test_asking_without_a_key_is_no_guess(self, gate: Gate) -> None:
        for _ in range(3 * FAILURES):
            with pytest.raises(Unauthorized):
                gate.admit(request())
        assert gate.admit(request(("x-api-key", SECRET))).name == "worker"

    def test_an_address_of_ipv6_stands_for_its_network(self, gate: Gate) -> None:
        for number in range(FAILURES):
            self.guess(gate, f"2001:db8::{number:x}")
        with pytest.raises(TooManyFailures):
            gate.admit(request(("x-api-key", SECRET), address="2001:db8::ffff"))
        assert gate.admit(request(("x-api-key", SECRET), address="2001:db8:0:1::1"))

    def test_an_address_of_ipv4_is_the_same_in_the_clothes_of_ipv6(self, gate: Gate) -> None:
        for _ in range(FAILURES):
            self.guess(gate, "::ffff:10.0.0.1")
        assert gate.admit(request(("x-api-key", SECRET), address="::ffff:10.0.0.2"))
        with pytest.raises(TooManyFailures):
            gate.admit(request(("x-api-key", SECRET), address="10.0.0.1"))

    def test_what_is_remembered_is_bounded(self, time: Monotonic) -> None:
        lockout = Lockout(time)
        for number in range(MOST_ADDRESSES + 100):
            lockout.failed(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
        assert len(lockout._failures) == MOST_ADDRESSES


class TestTokens:
    @pytest.fixture
    def clock(self) -> ManualClock:
        return ManualClock()

    @pytest.fixture
    def gate(self, clock: ManualClock) -> Gate:
        return Gate([known("worker", SECRET, "receive")], now=clock.now)

    def token(self, gate: Gate) -> str:
        return gate.issue_token(gate.admit(request(("x-api-key", SECRET))))[0]

    def test_a_token_opens_what_its_key_opens(self, gate: Gate, clock: ManualClock) -> None:
        token, expires_at = gate.issue_token(gate.admit(request(("x-api-key", SECRET))))
        assert expires_at == clock.now() + 60_000
        assert gate.admit(request(query=f"in_flight=5&token={token}")).name == "worker"

    @pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD"])
    def test_a_token_changes_nothing(self, gate: Gate, method: str) -> None:
        with pytest.raises(Unauthorized):
            gate.admit(request(query=f"token={self.token(gate)}", method=method))

    def test_a_token_lasts_a_minute(self, gate: Gate, clock: ManualClock) -> None:
        token = self.token(gate)
        clock.advance(59.9)
        assert gate.admit(request(query=f"token={token}"))
        clock.advance(0.1)
        with pytest.raises(Unauthorized, match="token"):
            gate.admit(request(query=f"token={token}"))

    @pytest.mark.parametrize("change", ["later", "name", "signature", "cut", "text"])
    def test_a_token_that_was_touched_opens_nothing(self, gate: Gate, change: str) -> None:
        until, signature, name = self.token(gate).split(".")
        touched = {
            "later": f"{int(until, 16) + 1:x}.{signature}.{name}",
            "name": f"{until}.{signature}.other",
            "signature": f"{until}.{'0' * 64}.{name}",
            "cut": f"{until}.{signature[:-1]}.{name}",
            "text": "%00ä",
        }[change]
        gate.learn([known("other", "x", "admin")])
        with pytest.raises(Unauthorized):
            gate.admit(request(query=f"token={touched}"))

    def test_a_token_of_another_process_opens_nothing(self, gate: Gate, clock: ManualClock) -> None:
        other = Gate([known("worker", SECRET, "receive")], now=clock.now)
        with pytest.raises(Unauthorized):
            gate.admit(request(query=f"token={self.token(other)}"))

    def test_a_stale_token_that_is_tried_again_and_again_locks_nobody_out(self, gate: Gate) -> None:
        for _ in range(3 * FAILURES):
            with pytest.raises(Unauthorized):
                gate.admit(request(query="token=stale"))
        assert gate.admit(request(("x-api-key", SECRET)))

    def test_a_key_that_is_made_again_under_its_name_does_not_revive_old_tokens(self, clock: ManualClock) -> None:
        gate = Gate(now=clock.now)
        gate.learn([known("worker", SECRET, "receive")])
        token = self.token(gate)
        gate.learn([])
        with pytest.raises(Unauthorized):
            gate.admit(request(query=f"token={token}"))
        gate.learn([known("worker", "another", "receive")])
        with pytest.raises(Unauthorized):
            gate.admit(request(query=f"token={token}"))

    def test_a_token_of_nobody_opens_nothing_once_there_are_keys(self) -> None:
        gate = Gate()
        token, _ = gate.issue_token(ANYBODY)
        assert gate.admit(request(("host", "localhost"), query=f"token={token}")) is ANYBODY
        gate.learn([known("worker", SECRET)])
        with pytest.raises(Unauthorized):
            gate.admit(request(("host", "localhost"), query=f"token={token}"))


class TestKeysThatComeAndGo:
    def test_a_key_of_the_database_opens_once_it_is_learned_and_no_longer_than_it_is_there(self, gate: Gate) -> None:
        gate.learn([known("new", "n")])
        assert gate.admit(request(("x-api-key", "n"))).name == "new"
        gate.learn([])
        with pytest.raises(Unauthorized):
            gate.admit(request(("x-api-key", "n")))
        assert gate.admit(request(("x-api-key", SECRET))).name == "worker"

    def test_a_gate_that_knew_a_key_stays_shut_when_the_last_is_revoked(self) -> None:
        gate = Gate()
        assert gate.is_open
        gate.learn([known("only", "o")])
        gate.learn([])
        assert not gate.is_open
        with pytest.raises(Unauthorized):
            gate.admit(request(("host", "localhost")))

    def test_a_gate_can_be_shut_without_a_key(self) -> None:
        gate = Gate()
        gate.shut()
        with pytest.raises(Unauthorized):
            gate.admit(request(("host", "localhost")))

    def test_changed_scopes_hold_from_the_next_request_on(self) -> None:
        gate = Gate()
        gate.learn([known("a", SECRET, "admin")])
        before = gate.admit(request(("x-api-key", SECRET)))
        gate.learn([known("a", SECRET, "admin")])
        assert gate.admit(request(("x-api-key", SECRET))) is before
        gate.learn([known("a", SECRET, "send")])
        with pytest.raises(Forbidden):
            gate.admit(request(("x-api-key", SECRET))).check("admin")

    def test_whoever_was_let_in_stays_as_long_as_their_key_is_what_it_was(self) -> None:
        """For requests that last: a stream of events, a receive that waits, a job."""
        gate = Gate()
        gate.learn([known("a", SECRET, "admin")])
        identity = gate.admit(request(("x-api-key", SECRET)))
        gate.learn([known("a", SECRET, "admin"), known("b", "another", "send")])
        assert gate.holds(identity)
        for others in ([known("a", SECRET, "send")], [known("a", "another", "admin")], []):
            gate.learn(others)
            assert not gate.holds(identity)

    def test_a_key_of_the_configuration_beats_one_of_the_database(self, gate: Gate, caplog: pytest.LogCaptureFixture) -> None:
        for _ in range(2):
            gate.learn([known("worker", "stored")])
        assert gate.admit(request(("x-api-key", SECRET))).name == "worker"
        with pytest.raises(Unauthorized):
            gate.admit(request(("x-api-key", "stored")))
        assert caplog.text.count("'worker'") == 1

    def test_the_watch_learns_what_the_database_says_and_survives_its_failures(self) -> None:
        stored: list[KnownKey] = [known("first", "1")]
        answers: list[Any] = [OSError("away"), stored]

        def read() -> list[KnownKey]:
            answer = answers.pop(0) if answers else stored
            if isinstance(answer, Exception):
                raise answer
            return list(answer)

        async def scene() -> None:
            gate = Gate(read=read)
            watch = asyncio.create_task(gate.watch(every=0.001))
            await eventually_async(lambda: "first" in gate._by_name)
            stored[:] = [known("second", "2")]
            await eventually_async(lambda: "second" in gate._by_name)
            assert "first" not in gate._by_name
            watch.cancel()
            with pytest.raises(asyncio.CancelledError):
                await watch

        asyncio.run(scene())

    def test_a_refresh_reads_at_once(self) -> None:
        gate = Gate(read=lambda: [known("first", "1")])
        asyncio.run(gate.refresh())
        assert gate.admit(request(("x-api-key", "1"))).name == "first"
