"""The dashboard: the right numbers, at once and as they change, and what needs attention on top."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

import rowq
from rowq import Broker, ManualClock
from rowq.server import depths
from rowq.server.admin import jobs
from tests.admin.accessibility import assert_accessible
from tests.admin.conftest import Served, with_pages
from tests.admin.letters import kill
from tests.admin.visiting import Visitor, quickest
from tests.server.support import ask, serving
from tests.support.patience import eventually

pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def broker(site: Served, tmp_path: Path) -> Iterator[Broker]:
    """Beside the server, on the same database: it knows nothing of what this one does."""
    with rowq.connect(f"sqlite:///{tmp_path}/queue.db", maintenance=False) as broker:
        yield broker


def row(visitor: Visitor, queue: str) -> list[str]:
    """What the table says of a queue: from its name to its errors."""
    found = re.search(rf'<tr id="queue-{re.escape(queue)}">(.*?)</tr>', visitor.get("/").text, re.DOTALL)
    cells = re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", found[1] if found else "", re.DOTALL)
    return [" ".join(re.sub(r"<[^>]*>", " ", cell).split()) for cell in cells][:10]


def names(visitor: Visitor, path: str) -> list[str]:
    return re.findall(r'<tr id="queue-([^"]+)">', visitor.get(path).text)


class TestNumbers:
    def test_every_state_is_told(self, site: Served, broker: Broker) -> None:
        visitor = Visitor(site.url)
        broker.send_many("q", range(1_300))
        broker.send("q", 1, delay=60)
        broker.send("q", 1, group="a", priority=9)
        broker.send("q", 1, group="a", priority=9)
        taken = broker.receive("q", max=3)
        broker.reject(taken[1])
        broker.ack(taken[2])
        stats = broker.stats("q")
        assert (stats.ready, stats.scheduled, stats.blocked, stats.leased, stats.dead) == (1_298, 1, 1, 1, 1)
        eventually(lambda: row(visitor, "q")[:6] == ["q", "1,298", "1", "1", "1", "1"])

    def test_rates_are_those_of_every_process(self, site: Served, broker: Broker) -> None:
        visitor = Visitor(site.url)
        visitor.get("/")
        broker.send_many("q", range(120))
        for number, delivery in enumerate(broker.receive("q", max=10)):
            broker.nack(delivery) if number else broker.ack(delivery)
        eventually(lambda: row(visitor, "q")[7:] == ["2/s", "1/min", "90 %"])
        assert "In the last hour: 120 sent, 1 done, 9 failed" in visitor.get("/").text

    def test_a_fresh_server_says_how_to_begin(self, site: Served, broker: Broker) -> None:
        visitor = Visitor(site.url)
        assert "rowq send demo" in visitor.get("/").words
        broker.send("q", 1)
        eventually(lambda: "rowq send demo" not in visitor.get("/").words)

    def test_a_change_by_the_api_is_there_at_the_next_look(self, site: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(depths, "EVERY", 60.0)
        visitor = Visitor(site.url)
        ask(site.server, "POST", "/v1/queues/q/messages", {"payload": 1})
        assert row(visitor, "q")[1] == "1"
        assert visitor.post("/queue/q/pause").status == 303
        assert row(visitor, "q")[0] == "q paused"


class TestManyQueues:
    @pytest.fixture
    def many(self, broker: Broker) -> None:
        for number in range(230):
            broker.send_many(f"q{number:03}", [1] * (1 + number % 7))

    @pytest.mark.usefixtures("many")
    def test_they_come_in_pages(self, site: Served) -> None:
        visitor = Visitor(site.url)
        assert names(visitor, "/") == [f"q{number:03}" for number in range(100)]
        assert names(visitor, "/?page=3") == [f"q{number:03}" for number in range(200, 230)]
        assert "Page 3 of 3 · 230 queues" in visitor.get("/?page=99").words
        assert names(visitor, "/?page=nonsense") == names(visitor, "/")

    @pytest.mark.usefixtures("many")
    def test_they_are_sorted_and_found(self, site: Served) -> None:
        visitor = Visitor(site.url)
        assert names(visitor, "/?sort=ready")[:2] == ["q006", "q013"]
        assert names(visitor, "/?name=Q22") == [f"q{number}" for number in range(220, 230)]
        assert names(visitor, "/?name=nowhere") == []
        for column in ("scheduled", "blocked", "leased", "dead", "oldest", "in", "out", "errors"):
            assert len(names(visitor, f"/?sort={column}")) == 100
        assert visitor.get("/?sort=colour").status == 400


class TestAttention:
    def test_all_is_well(self, site: Served, broker: Broker) -> None:
        broker.send("q", 1)
        assert "Needs attention" not in Visitor(site.url).get("/").words

    def test_what_fails_is_told(self, site: Served, broker: Broker) -> None:
        kill(site.server, "emails", *range(6))
        broker.configure("full", max_depth=2)
        broker.send_many("full", [1, 2])
        broker.send("still", 1)
        broker.pause("still")
        broker.send("slow", 1)
        assert broker.receive("slow", lease=0.1)
        eventually(lambda: "ran out" in Visitor(site.url).get("/").words)
        words = Visitor(site.url).get("/").words
        for sentence in (
            "emails : 6 messages became dead letters in the last hour.",
            "emails : 100% of deliveries failed in the last five minutes: 6 of 6.",
            "full : it is full: 2 of 2 messages.",
            "still : it is paused, and 1 message waits.",
            "slow : 1 lease ran out in the last hour",
        ):
            assert sentence in words, words
        assert words.index("emails") < words.index("still")

    def test_a_job_that_runs_is_told(self, site: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(jobs, "PATIENCE", 0.01)
        kill(site.server, "emails", *range(3))
        visitor = Visitor(site.url)
        visitor.get("/")
        shown = visitor.post("/queue/emails/dead/redrive", {"all": "yes", "rate": "0.01", "confirmed": "yes"})
        url = shown.headers["location"]
        assert f'<a href="{url}">Show progress</a>' in visitor.get("/").text
        visitor.post(f"{url}/cancellation")
        assert "Show progress" not in visitor.get("/").words

    def test_what_nobody_takes_is_told(self, tmp_path: Path) -> None:
        clock = ManualClock()
        with serving(tmp_path, clock=clock, maintenance=False) as server:
            visitor = Visitor(with_pages(server).url)
            ask(server, "POST", "/v1/queues/q/messages", {"payload": 1})
            assert "no consumer receives" not in visitor.get("/").words
            clock.advance(301)
            assert "q : no consumer receives its messages: the oldest has been waiting for 5 min 1 s." in visitor.get("/").words


def test_a_limited_key_sees_its_queues_only(locked_site: Served) -> None:
    for queue in ("emails", "secret"):
        kill(locked_site.server, queue, *range(6))
    visitor = Visitor(locked_site.url)
    visitor.log_in("rowq_mailer")
    eventually(lambda: "6 failed" in visitor.get("/").words)
    shown = visitor.get("/")
    assert "emails" in shown.words and "secret" not in shown.text
    assert "12 failed" not in shown.words


class TestLive:
    def test_a_number_changes_without_a_reload(self, page: Page, site: Served, broker: Broker) -> None:
        ask(site.server, "POST", "/v1/queues/q/messages", {"payload": 1})
        page.goto("/")
        ready = page.locator("#queue-q td").first
        expect(ready).to_have_text("1")
        page.evaluate("window.isStillHere = true")
        ask(site.server, "POST", "/v1/queues/q/messages", {"payload": 1})
        expect(ready).to_have_text("2")
        broker.send("q", 1)
        expect(ready).to_have_text("3")
        assert page.evaluate("window.isStillHere")

    def test_of_another_process_too(self, page: Page, broker: Broker, tmp_path: Path) -> None:
        broker.send("q", 1)
        page.goto("/")
        expect(page.locator("#queue-q td").first).to_have_text("1")
        command = [sys.executable, "-m", "rowq.cli.main", "--url", f"sqlite:///{tmp_path}/queue.db", "send", "q", "2"]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        expect(page.locator("#queue-q td").first).to_have_text("2")
        expect(page.locator("#queue-q td").nth(6)).to_have_text("2/min")

    def test_what_somebody_types_is_left_alone(self, page: Page, broker: Broker) -> None:
        broker.send("q", 1)
        page.goto("/")
        page.get_by_label("Queue name").fill("half a na")
        broker.send("q", 1)
        expect(page.locator("#queue-q td").first).to_have_text("2")
        expect(page.get_by_label("Queue name")).to_have_value("half a na")

    def test_a_new_queue_appears(self, page: Page, broker: Broker) -> None:
        page.goto("/")
        expect(page.get_by_text("No queues yet")).to_be_visible()
        broker.send("q", 1)
        expect(page.locator("#queue-q td").first).to_have_text("1")

    def test_the_first_message_can_be_sent_from_here(self, page: Page) -> None:
        page.goto("/")
        page.get_by_role("link", name="Send one from here").click()
        page.get_by_label("Payload", exact=True).fill('{"hello": "world"}')
        page.get_by_role("button", name="Send").click()
        page.get_by_role("link", name="Queues").first.click()
        expect(page.locator("#queue-demo td").first).to_have_text("1")

    def test_everybody_can_use_it(self, page: Page, site: Served, broker: Broker) -> None:
        kill(site.server, "emails", *range(6))
        broker.send("q", 1)
        page.goto("/")
        expect(page.get_by_text("Needs attention")).to_be_visible()
        assert_accessible(page)


MANY = pytest.mark.prove("a speed, and 5 s to fill the queue; 2,000 messages and no haste stand for it")


@pytest.mark.parametrize(("pieces", "seconds"), [(1, 60), pytest.param(50, 1, marks=MANY)])
def test_over_many_messages_it_opens_in_under_a_second(site: Served, broker: Broker, pieces: int, seconds: int) -> None:
    for _ in range(pieces):
        broker.send_many("q", [1] * 2_000)
    visitor = Visitor(site.url)
    assert quickest(visitor, "/") < seconds
    eventually(lambda: row(visitor, "q")[1] == f"{2_000 * pieces:,}")


def test_a_page_that_was_out_of_sight_catches_up(page: Page, broker: Broker) -> None:
    broker.send("q", 1)
    page.goto("/")
    hide = "Object.defineProperty(document, 'hidden', {configurable: true, get: () => %s});"
    page.evaluate(hide % "true" + "document.dispatchEvent(new Event('visibilitychange'))")
    broker.send("q", 1)
    page.evaluate(hide % "false" + "document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.locator("#queue-q td").first).to_have_text("2")
