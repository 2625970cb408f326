"""Authentication: who comes in, who does not, and what a key may do."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest

from rowq import Forbidden, ManualClock, TooManyFailures, Unauthorized
from rowq.model.access import ApiKey, KnownKey, Right, Scope, digest_of
from rowq.server.auth.authentication import ANONYMOUS, Authenticator
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
def authenticator(time: Monotonic) -> Authenticator:
    return Authenticator([known("worker", SECRET, "send", "receive")], monotonic=time)


def test_the_same_secret_in_configuration_and_database_opens_what_the_database_says() -> None:
    """A client's key that was left in the environment of the server must not make its owner an admin."""
    authenticator = Authenticator([known("env", "s3cret", "send", "receive", "admin", "metrics")])
    authenticator.learn([known("billing", "s3cret", "send", queues=("invoices.*",))])
    identity = authenticator.admit(request(("x-api-key", "s3cret")))
    assert identity.name == "billing"
    with pytest.raises(Forbidden):
        identity.check("admin")
    authenticator.learn([])
    assert authenticator.admit(request(("x-api-key", "s3cret"))).name == "env"


class TestWithoutKeys:
    @pytest.mark.parametrize("host", ["localhost", "LocalHost:8080", "127.0.0.1", "127.0.0.1:8080", "127.8.8.8", "[::1]", "[::1]:8080"])
    def test_this_machine_may_ask(self, host: str) -> None:
        assert Authenticator().admit(request(("host", host))) is ANONYMOUS

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
    def test_a_request_under_another_host_name_is_refused(self, host: str) -> None:
        with pytest.raises(Forbidden):
            Authenticator().admit(request(("host", host)))

    def test_a_request_that_names_no_host_is_refused(self) -> None:
        with pytest.raises(Forbidden):
            Authenticator().admit(request())

    def test_a_second_host_does_not_hide_the_first(self) -> None:
        with pytest.raises(Forbidden):
            Authenticator().admit(request(("host", "example.com"), ("host", "localhost")))

    @pytest.mark.parametrize("origin", ["http://localhost", "http://localhost:3000", "https://127.0.0.1", "http://[::1]:8080"])
    def test_a_page_of_this_machine_may_ask(self, origin: str) -> None:
        assert Authenticator().admit(request(("host", "localhost"), ("origin", origin))) is ANONYMOUS

    @pytest.mark.parametrize(
        "origin", ["https://example.com", "null", "", "file://", "http://localhost.example.com", "ftp://localhost", "localhost"]
    )
    def test_a_page_of_another_site_may_not(self, origin: str) -> None:
        with pytest.raises(Forbidden):
            Authenticator().admit(request(("host", "localhost"), ("origin", origin)))

    def test_credentials_are_ignored(self) -> None:
        assert Authenticator().admit(request(("host", "localhost"), ("x-api-key", "anything"))).name is None

    @pytest.mark.parametrize("right", ["send", "receive", "look", "admin", "metrics"])
    def test_anybody_may_do_everything(self, right: Right) -> None:
        ANONYMOUS.check(right)
        ANONYMOUS.check(right, "orders")
        assert ANONYMOUS.sees_all and ANONYMOUS.reaches("orders") and ANONYMOUS.actor is None


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
    def test_a_key_opens_in_every_way_it_may_be_sent(self, authenticator: Authenticator, header: tuple[str, str]) -> None:
        identity = authenticator.admit(request(("host", "queue.example.com"), header))
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
    def test_anything_else_does_not(self, authenticator: Authenticator, header: tuple[str, str]) -> None:
        with pytest.raises(Unauthorized):
            authenticator.admit(request(("host", "localhost"), header))

    def test_no_credentials_say_how_to_send_some(self, authenticator: Authenticator) -> None:
        with pytest.raises(Unauthorized, match="X-API-Key"):
            authenticator.admit(request(("host", "localhost")))

    def test_a_client_without_an_address_is_still_asked_for_its_key(self, authenticator: Authenticator) -> None:
        assert authenticator.admit(request(("x-api-key", SECRET), address=None)).name == "worker"
        with pytest.raises(Unauthorized):
            authenticator.admit(request(("x-api-key", "wrong"), address=None))

    def test_a_secret_may_be_any_bytes(self) -> None:
        authenticator = Authenticator([known("worker", "schlüssel")])
        scope = request()
        scope["headers"] = [(b"x-api-key", "schlüssel".encode())]
        assert authenticator.admit(scope).name == "worker"

    def test_a_browser_that_adds_basic_by_itself_is_no_proof_of_a_wish(self, authenticator: Authenticator) -> None:
        host, key = ("host", "queue.example.com"), basic("worker", SECRET)
        assert authenticator.admit(request(host, key, ("origin", "https://queue.example.com"), method="POST"))
        for origin in ("https://evil.example.com", "null"):
            with pytest.raises(Forbidden, match="another site"):
                authenticator.admit(request(host, key, ("origin", origin), method="POST"))
        assert authenticator.admit(request(host, ("x-api-key", SECRET), ("origin", "https://app.example.com"), method="POST"))


class TestRights:
    def test_a_right_is_checked_with_the_queue(self) -> None:
        identity = Authenticator([known("eu", SECRET, "send", queues=("orders.*",))]).admit(request(("x-api-key", SECRET)))
        identity.check("send", "orders.eu")
        assert not identity.sees_all
        assert identity.reaches("orders.eu") and not identity.reaches("invoices")
        with pytest.raises(Forbidden, match="invoices"):
            identity.check("send", "invoices")
        with pytest.raises(Forbidden, match="scope receive"):
            identity.check("receive", "orders.eu")

    def test_without_a_queue_only_the_scope_is_looked_at(self) -> None:
        identity = Authenticator([known("eu", SECRET, "receive", queues=("orders.*",))]).admit(request(("x-api-key", SECRET)))
        identity.check("look")
        with pytest.raises(Forbidden):
            identity.check("admin")

    def test_a_refusal_names_the_scope_that_is_missing(self, authenticator: Authenticator) -> None:
        identity = authenticator.admit(request(("x-api-key", SECRET)))
        with pytest.raises(Forbidden, match="scope admin"):
            identity.check("admin")
        sender = Authenticator([known("s", SECRET, "send")]).admit(request(("x-api-key", SECRET)))
        with pytest.raises(Forbidden, match="receive or admin"):
            sender.check("look", "orders")


class TestLockout:
    def guess(self, authenticator: Authenticator, address: str = "10.0.0.1") -> None:
        with pytest.raises(Unauthorized):
            authenticator.admit(request(("x-api-key", "wrong"), address=address))

    def test_a_client_that_guesses_ten_times_is_locked_out_for_a_minute(self, authenticator: Authenticator, time: Monotonic) -> None:
        for _ in range(FAILURES):
            self.guess(authenticator)
        with pytest.raises(TooManyFailures) as refused:
            authenticator.admit(request(("x-api-key", SECRET)))
        assert getattr(refused.value, "retry_after", None) == 60
        time.seconds = LOCKED_FOR - 0.5
        with pytest.raises(TooManyFailures):
            authenticator.admit(request(("x-api-key", SECRET)))
        time.seconds = LOCKED_FOR
        assert authenticator.admit(request(("x-api-key", SECRET))).name == "worker"
        self.guess(authenticator)

    def test_others_are_listened_to_meanwhile(self, authenticator: Authenticator) -> None:
        for _ in range(FAILURES):
            self.guess(authenticator)
        assert authenticator.admit(request(("x-api-key", SECRET), address="10.0.0.2")).name == "worker"

    def test_failures_far_apart_are_no_guessing(self, authenticator: Authenticator, time: Monotonic) -> None:
        for _ in range(3 * FAILURES):
            self.guess(authenticator)
            time.seconds += 7
        assert authenticator.admit(request(("x-api-key", SECRET))).name == "worker"

    def test_asking_without_a_key_is_no_guess(self, authenticator: Authenticator) -> None:
        for _ in range(3 * FAILURES):
            with pytest.raises(Unauthorized):
                authenticator.admit(request())
        assert authenticator.admit(request(("x-api-key", SECRET))).name == "worker"

    def test_an_address_of_ipv6_stands_for_its_network(self, authenticator: Authenticator) -> None:
        for number in range(FAILURES):
            self.guess(authenticator, f"2001:db8::{number:x}")
        with pytest.raises(TooManyFailures):
            authenticator.admit(request(("x-api-key", SECRET), address="2001:db8::ffff"))
        assert authenticator.admit(request(("x-api-key", SECRET), address="2001:db8:0:1::1"))

    def test_an_address_of_ipv4_is_the_same_in_the_clothes_of_ipv6(self, authenticator: Authenticator) -> None:
        for _ in range(FAILURES):
            self.guess(authenticator, "::ffff:10.0.0.1")
        assert authenticator.admit(request(("x-api-key", SECRET), address="::ffff:10.0.0.2"))
        with pytest.raises(TooManyFailures):
            authenticator.admit(request(("x-api-key", SECRET), address="10.0.0.1"))

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
    def authenticator(self, clock: ManualClock) -> Authenticator:
        return Authenticator([known("worker", SECRET, "receive")], now=clock.now)

    def token(self, authenticator: Authenticator) -> str:
        return authenticator.issue_token(authenticator.admit(request(("x-api-key", SECRET))))[0]

    def test_a_token_opens_what_its_key_opens(self, authenticator: Authenticator, clock: ManualClock) -> None:
        token, expires_at = authenticator.issue_token(authenticator.admit(request(("x-api-key", SECRET))))
        assert expires_at == clock.now() + 60_000
        assert authenticator.admit(request(query=f"in_flight=5&token={token}")).name == "worker"

    @pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD"])
    def test_a_token_changes_nothing(self, authenticator: Authenticator, method: str) -> None:
        with pytest.raises(Unauthorized):
            authenticator.admit(request(query=f"token={self.token(authenticator)}", method=method))

    def test_a_token_lasts_a_minute(self, authenticator: Authenticator, clock: ManualClock) -> None:
        token = self.token(authenticator)
        clock.advance(59.9)
        assert authenticator.admit(request(query=f"token={token}"))
        clock.advance(0.1)
        with pytest.raises(Unauthorized, match="token"):
            authenticator.admit(request(query=f"token={token}"))

    @pytest.mark.parametrize("change", ["later", "name", "signature", "cut", "text"])
    def test_a_token_that_was_touched_opens_nothing(self, authenticator: Authenticator, change: str) -> None:
        until, signature, name = self.token(authenticator).split(".")
        touched = {
            "later": f"{int(until, 16) + 1:x}.{signature}.{name}",
            "name": f"{until}.{signature}.other",
            "signature": f"{until}.{'0' * 64}.{name}",
            "cut": f"{until}.{signature[:-1]}.{name}",
            "text": "%00ä",
        }[change]
        authenticator.learn([known("other", "x", "admin")])
        with pytest.raises(Unauthorized):
            authenticator.admit(request(query=f"token={touched}"))

    def test_a_token_of_another_process_opens_nothing(self, authenticator: Authenticator, clock: ManualClock) -> None:
        other = Authenticator([known("worker", SECRET, "receive")], now=clock.now)
        with pytest.raises(Unauthorized):
            authenticator.admit(request(query=f"token={self.token(other)}"))

    def test_a_stale_token_that_is_tried_again_and_again_locks_nobody_out(self, authenticator: Authenticator) -> None:
        for _ in range(3 * FAILURES):
            with pytest.raises(Unauthorized):
                authenticator.admit(request(query="token=stale"))
        assert authenticator.admit(request(("x-api-key", SECRET)))

    def test_a_key_that_is_made_again_under_its_name_does_not_revive_old_tokens(self, clock: ManualClock) -> None:
        authenticator = Authenticator(now=clock.now)
        authenticator.learn([known("worker", SECRET, "receive")])
        token = self.token(authenticator)
        authenticator.learn([])
        with pytest.raises(Unauthorized):
            authenticator.admit(request(query=f"token={token}"))
        authenticator.learn([known("worker", "another", "receive")])
        with pytest.raises(Unauthorized):
            authenticator.admit(request(query=f"token={token}"))

    def test_a_token_of_nobody_opens_nothing_once_there_are_keys(self) -> None:
        authenticator = Authenticator()
        token, _ = authenticator.issue_token(ANONYMOUS)
        assert authenticator.admit(request(("host", "localhost"), query=f"token={token}")) is ANONYMOUS
        authenticator.learn([known("worker", SECRET)])
        with pytest.raises(Unauthorized):
            authenticator.admit(request(("host", "localhost"), query=f"token={token}"))


class TestKeysThatComeAndGo:
    def test_a_key_of_the_database_opens_once_it_is_learned_and_no_longer_than_it_is_there(self, authenticator: Authenticator) -> None:
        authenticator.learn([known("new", "n")])
        assert authenticator.admit(request(("x-api-key", "n"))).name == "new"
        authenticator.learn([])
        with pytest.raises(Unauthorized):
            authenticator.admit(request(("x-api-key", "n")))
        assert authenticator.admit(request(("x-api-key", SECRET))).name == "worker"

    def test_a_gate_that_knew_a_key_stays_shut_when_the_last_is_revoked(self) -> None:
        authenticator = Authenticator()
        assert authenticator.is_open
        authenticator.learn([known("only", "o")])
        authenticator.learn([])
        assert not authenticator.is_open
        with pytest.raises(Unauthorized):
            authenticator.admit(request(("host", "localhost")))

    def test_a_gate_can_be_shut_without_a_key(self) -> None:
        authenticator = Authenticator()
        authenticator.shut()
        with pytest.raises(Unauthorized):
            authenticator.admit(request(("host", "localhost")))

    def test_changed_scopes_hold_from_the_next_request_on(self) -> None:
        authenticator = Authenticator()
        authenticator.learn([known("a", SECRET, "admin")])
        before = authenticator.admit(request(("x-api-key", SECRET)))
        authenticator.learn([known("a", SECRET, "admin")])
        assert authenticator.admit(request(("x-api-key", SECRET))) is before
        authenticator.learn([known("a", SECRET, "send")])
        with pytest.raises(Forbidden):
            authenticator.admit(request(("x-api-key", SECRET))).check("admin")

    def test_whoever_was_let_in_stays_as_long_as_their_key_is_what_it_was(self) -> None:
        """For requests that last: a stream of events, a receive that waits, a job."""
        authenticator = Authenticator()
        authenticator.learn([known("a", SECRET, "admin")])
        identity = authenticator.admit(request(("x-api-key", SECRET)))
        authenticator.learn([known("a", SECRET, "admin"), known("b", "another", "send")])
        assert authenticator.holds(identity)
        for others in ([known("a", SECRET, "send")], [known("a", "another", "admin")], []):
            authenticator.learn(others)
            assert not authenticator.holds(identity)

    def test_a_key_of_the_configuration_beats_one_of_the_database(
        self, authenticator: Authenticator, caplog: pytest.LogCaptureFixture
    ) -> None:
        for _ in range(2):
            authenticator.learn([known("worker", "stored")])
        assert authenticator.admit(request(("x-api-key", SECRET))).name == "worker"
        with pytest.raises(Unauthorized):
            authenticator.admit(request(("x-api-key", "stored")))
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
            authenticator = Authenticator(read=read)
            watch = asyncio.create_task(authenticator.watch(every=0.001))
            await eventually_async(lambda: "first" in authenticator._by_name)
            stored[:] = [known("second", "2")]
            await eventually_async(lambda: "second" in authenticator._by_name)
            assert "first" not in authenticator._by_name
            watch.cancel()
            with pytest.raises(asyncio.CancelledError):
                await watch

        asyncio.run(scene())

    def test_a_refresh_reads_at_once(self) -> None:
        authenticator = Authenticator(read=lambda: [known("first", "1")])
        asyncio.run(authenticator.refresh())
        assert authenticator.admit(request(("x-api-key", "1"))).name == "first"
