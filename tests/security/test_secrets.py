"""Secrets are planted wherever they may be given, and everything is provoked that the server writes or answers: none of them is there."""

from __future__ import annotations

import base64
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import psutil
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import rowq
from rowq.server.admin.pages import PAGES
from rowq.server.admin.session import COOKIE
from rowq.server.api.routes import ROUTES
from rowq.server.config import load
from rowq.server.logs import redact
from rowq.server.tracing import Tracing
from tests.admin.visiting import Visitor
from tests.cli.driver import Run
from tests.server.support import ask, key, serving
from tests.support.database import run
from tests.support.patience import eventually
from tests.support.servers import own_mariadb, own_postgresql, own_redis
from tests.support.servers.mariadb import connected
from tests.support.serving import Served

OF_ENVIRONMENT = "rowq_canaryOfTheEnvironment"
MISTYPED = OF_ENVIRONMENT + "x"
DATABASE = "canaryOfTheDatabase"
REDIS = "canaryOfRedis"
BASIC = base64.b64encode(f"env:{OF_ENVIRONMENT}".encode()).decode()


class Suspect:
    """A server that was told secrets, and all that was seen of it."""

    def __init__(self, folder: Path, url: str, *args: str, **environment: str) -> None:
        usual = ("--json", "--access-log", "--log-level", "debug", "--otel", *args)
        self.served = Served(folder, *usual, ROWQ_API_KEY=OF_ENVIRONMENT, ROWQ_URL=url, **environment)
        self.seen = [str(self.served.announced())]
        self.canary = "/v1/queues/canary-in-a-path"
        self.ask("GET", self.canary)
        self.secrets = {OF_ENVIRONMENT, MISTYPED, BASIC, DATABASE, REDIS}

    def close(self) -> None:
        self.served.close()

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        answer = self.served.ask(method, path, body, **headers)
        self.seen += [str(answer.headers), answer.body.decode()]
        return answer

    def make_key(self) -> None:
        """Its secret is told once, to whoever made it."""
        made = self.served.ask("POST", "/v1/api-keys", {"name": "made", "scopes": ["admin"]}, X_API_Key=OF_ENVIRONMENT).json["secret"]
        eventually(lambda: self.served.ask("GET", "/v1/queues", X_API_Key=made).status == 200)  # of every worker, in the end
        token = self.served.ask("POST", "/v1/tokens", X_API_Key=OF_ENVIRONMENT).json["token"]
        self.secrets |= {made, token}
        for header in ({"X_API_Key": made}, {"Authorization": f"Bearer {made}"}, {"Authorization": f"Basic {BASIC}"}):
            self.ask("GET", "/v1/queues", **header)
        assert self.ask("GET", f"/v1/queues?token={token}").status == 200

    def walk_the_api(self) -> None:
        """Every route that takes no more than a path, by whoever may, with every kind of mistake."""
        for route in ROUTES:
            path = route.path.format(queue="jobs", id="x", name="x", stream="x", consumer_id="x", sweep="expired")
            if "deliveries" not in path and "watch" not in path:
                self.ask(route.method, path, {"payload": 1} if route.body else None, X_API_Key=OF_ENVIRONMENT)
        self.ask("POST", "/v1/queues/jobs/messages", {"payload": 1, "headers": {"a": MISTYPED, "b": 1}}, X_API_Key=OF_ENVIRONMENT)
        for header in ({"X_API_Key": MISTYPED}, {"Authorization": f"Bearer {MISTYPED}"}, {"Authorization": f"Digest {MISTYPED}"}):
            assert self.ask("GET", "/v1/queues", **header).status == 401
        self.ask("GET", f"/v1/queues?token={MISTYPED}&password={MISTYPED}")

    def walk_the_pages(self) -> None:
        """Cookie and form token are on the page of whoever they belong to, so what is shown is searched for the others alone."""
        assert self.served.admin is not None
        visitor = Visitor(self.served.admin)
        assert visitor.log_in(MISTYPED).status == 401
        assert visitor.log_in(OF_ENVIRONMENT).status == 303
        own = {visitor.cookies[COOKIE], visitor.csrf}
        for page in PAGES:
            if page.method == "GET" and not page.streams:
                shown = visitor.get(page.path.format(queue="jobs", id="x"))
                self.seen.append(shown.text.replace(visitor.csrf, ""))
                assert visitor.cookies[COOKIE] not in shown.text
        visitor.post("/queue/jobs/pause", token=MISTYPED)
        self.secrets |= own

    def processes(self) -> None:
        me = psutil.Process(self.served.process.pid)
        for process in (me, *me.children(recursive=True)):
            self.seen.append(" ".join([process.name(), *process.cmdline()]))

    def told(self) -> list[str]:
        """Which secrets were seen, in its log too, once it has ended."""
        self.served.signal()
        assert self.served.ended() == 0
        everything = "\n".join([*self.seen, self.served.log])
        assert self.canary in self.served.log and "jobs" in everything, "what is not hidden is found"
        return [secret for secret in self.secrets if secret in everything]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def planted(url: str) -> str:
    return url.replace(":secret@", f":{DATABASE}@")


with_and_without = pytest.mark.parametrize(
    "is_away", [False, pytest.param(True, marks=pytest.mark.prove("20 s of timeouts; a database that is there stands for it"))]
)


@with_and_without
def test_no_secret_is_seen_with_postgresql_and_redis(tmp_path: Path, stack: ExitStack, is_away: bool) -> None:
    """Also when both of them are away."""
    postgresql, redis = stack.enter_context(own_postgresql()), stack.enter_context(own_redis())
    url = planted(postgresql.home) + "&timeout=5" * is_away
    place = redis.url().replace("redis://", f"redis://default:{REDIS}@")
    suspect = stack.enter_context(closing(Suspect(tmp_path, url, "--workers", "2", ROWQ_REDIS=place)))
    suspect.make_key()
    suspect.walk_the_api()
    suspect.walk_the_pages()
    suspect.processes()
    if is_away:
        redis.kill()
        postgresql.kill()
        eventually(lambda: suspect.ask("GET", "/v1/queues", X_API_Key=OF_ENVIRONMENT).status == 503, within=60)
        suspect.ask("POST", "/v1/queues/jobs/messages", {"payload": 1}, X_API_Key=OF_ENVIRONMENT)
        suspect.ask("GET", "/v1/doctor", X_API_Key=OF_ENVIRONMENT)
        suspect.ask("GET", "/metrics", X_API_Key=OF_ENVIRONMENT)
    assert suspect.told() == []


@with_and_without
def test_no_secret_is_seen_with_mariadb(tmp_path: Path, stack: ExitStack, is_away: bool) -> None:
    mariadb = stack.enter_context(own_mariadb())
    mariadb.create_database("jobs")
    with closing(connected(mariadb.url("jobs"))) as connection:
        run(connection, f"CREATE USER ada IDENTIFIED BY '{DATABASE}'")
        run(connection, "GRANT ALL PRIVILEGES ON *.* TO ada")
    url = f"mariadb://ada:{DATABASE}@127.0.0.1:{mariadb.port}/jobs{'?timeout=5' * is_away}"
    suspect = stack.enter_context(closing(Suspect(tmp_path, url, "--log-format", "json")))
    suspect.make_key()
    suspect.walk_the_api()
    suspect.walk_the_pages()
    if is_away:
        mariadb.kill()
        eventually(lambda: suspect.ask("GET", "/v1/queues", X_API_Key=OF_ENVIRONMENT).status == 503, within=60)
    assert suspect.told() == []


def test_a_password_on_a_command_line_is_warned_of_and_not_repeated(tmp_path: Path) -> None:
    """Nobody can take it out of the list of processes again."""
    url, redis = f"postgresql://ada:{DATABASE}@host/db", f"redis://:{REDIS}@host"
    in_flags = load({"url": url, "redis": redis}, {}, folder=tmp_path)
    assert [remark.partition(" ")[0] for remark in in_flags.remarks] == ["--url", "--redis"]
    assert "ROWQ_URL" in in_flags.remarks[0] and DATABASE not in str(in_flags.remarks) and REDIS not in str(in_flags.remarks)
    assert not load({}, {"ROWQ_URL": url, "ROWQ_REDIS": redis}, folder=tmp_path).remarks
    assert not load({"url": "postgresql://ada@host/db"}, {}, folder=tmp_path).remarks


@pytest.mark.parametrize(
    "text",
    [
        f"postgresql://ada:{DATABASE}@host/db",
        f"postgresql://ada:{DATABASE}@more@host/db",
        f"postgresql://host/db?user=ada&password={DATABASE}",
        f"mariadb://host/db?ssl_key_password={DATABASE}&charset=utf8",
        f"redis://:{DATABASE}@host",
        f"rediss://host?password={DATABASE}",
        f"GET /v1/queues?token={DATABASE} HTTP/1.1",
        f"{{'x-api-key': '{DATABASE}'}}",
        f"(b'authorization', b'Bearer {DATABASE}')",
        f"Authorization: Basic {DATABASE}",
        f"cookie: a=b; {COOKIE}={DATABASE}",
    ],
)
def test_a_log_hides_what_is_told_it(text: str) -> None:
    assert DATABASE not in redact(text) and "***" in redact(text)


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://ada:{DATABASE}@127.0.0.1:1/db?timeout=1",
        f"postgresql://ada@127.0.0.1:1/db?password={DATABASE}&timeout=1",
        f"postgresql://ada:{DATABASE}@127.0.0.1:port/db",
        f"postgresql://ada:{DATABASE}/x@127.0.0.1/db",
        f"postgresql://ada:{DATABASE}@127.0.0.1:1/db?colour=red",
        f"mariadb://ada:{DATABASE}@127.0.0.1:1/db?timeout=1",
        f"mariadb://127.0.0.1:1/db?ssl_key=/nowhere&ssl_key_password={DATABASE}&timeout=1",
        f"http://ada:{DATABASE}@127.0.0.1:1?timeout=1",
        f"https://ada:{DATABASE}@127.0.0.1:1?colour=red",
        f"oracle://ada:{DATABASE}@127.0.0.1/db",
        f"ada:{DATABASE}@127.0.0.1/db",
    ],
)
def test_a_command_that_fails_tells_no_password(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """Neither in its sentence nor, from Python, in a traceback or in what an object shows of itself."""
    for command in ("queues", "doctor"):
        done = Run(monkeypatch)(command, "--url", url)
        assert done.exit_code != 0 and DATABASE not in done.out + done.err, done
    try:
        with rowq.connect(url) as broker:
            told = f"{broker!r} {vars(broker)}"
            broker.queues()
    except rowq.RowqError:
        told = traceback.format_exc()
    else:
        raise AssertionError("nobody is there to answer")
    assert DATABASE not in told, told


def test_no_secret_is_in_a_span(tmp_path: Path) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    secret, payload = "rowq_admin", "salary-of-ada"
    with serving(tmp_path, key("admin", "admin")) as server:
        server.service.tracing = Tracing(provider)
        headers = {"cookie": f"{COOKIE}=canary", "authorization": f"Bearer {secret}"}
        for body in ({"payload": payload}, {"payload": payload, "id": "twice"}, {"payload": payload, "id": "twice"}):
            ask(server, "POST", "/v1/queues/jobs/messages", body, headers=headers)
        receipt = ask(server, "POST", "/v1/queues/jobs/deliveries?token=canary", {}, secret=secret).json["deliveries"][0]["receipt"]
        assert ask(server, "POST", "/v1/nack", {"receipts": [receipt], "reason": payload}, secret=secret).status == 200
    spans = [span.to_json() for span in exporter.get_finished_spans()]
    provider.shutdown()
    assert len(spans) >= 4
    assert not [span for span in spans if any(word in span for word in (secret, payload, "canary", receipt))]


def test_a_key_is_kept_as_a_digest_wherever_it_is_kept(tmp_path: Path) -> None:
    with rowq.connect(f"sqlite:///{tmp_path}/jobs.db") as broker:
        secret = broker.create_key("worker", scopes=["send"])
        broker.send("jobs", 1)
    kept = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"worker" in kept and secret.encode() not in kept and secret.removeprefix("rowq_").encode() not in kept
