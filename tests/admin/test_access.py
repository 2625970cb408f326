"""Who gets in, for how long, and what a page of another site can do: nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rowq
from rowq.model.access import digest_of
from rowq.server.admin.pages import PAGES
from rowq.server.admin.session import COOKIE, LIFETIME_MS
from rowq.server.admin.site import Site
from rowq.server.auth.authentication import Authenticator
from rowq.server.logs import AccessLog, JsonFormatter
from tests.admin.conftest import Served, with_pages
from tests.admin.visiting import Visitor
from tests.admin.working import send
from tests.server.support import ADMIN, key, serving

CLOSED = [page for page in PAGES if not page.is_open]


def filled(path: str) -> str:
    """A path with something in its places."""
    return path.replace("{queue}", "emails").replace("{id}", "x").replace("{", "").replace("}", "")


class TestWithoutKeys:
    def test_this_machine_is_in_without_a_word(self, site: Served) -> None:
        assert Visitor(site.url).get("/").status == 200

    def test_there_is_nothing_to_log_in_to(self, site: Served) -> None:
        shown = Visitor(site.url).get("/login")
        assert (shown.status, shown.headers["location"]) == (303, "/")
        assert "Log out" not in Visitor(site.url).get("/").text

    @pytest.mark.parametrize("host", ["evil.example", "evil.example:8081", "127.0.0.1.evil.example"])
    def test_another_name_is_refused(self, site: Served, host: str) -> None:
        assert Visitor(site.url, host).get("/").status == 403

    def test_a_link_of_another_site_leads_here(self, site: Served) -> None:
        assert Visitor(site.url).get("/", sec_fetch_site="cross-site", sec_fetch_mode="navigate").status == 200

    def test_a_forged_form_is_refused(self, site: Served) -> None:
        visitor = Visitor(site.url)
        visitor.get("/")
        site.server.engine.driver.drive(site.server.engine.verbs.configure("emails", {"lease": 5}))
        for forged in ("", "0" * 64, "ä"):
            assert visitor.post("/queue/emails/pause", token=forged or " ").status == 403
        assert Visitor(site.url).post("/queue/emails/pause").status == 403
        assert visitor.post("/queue/emails/pause", origin="https://evil.example").status == 403
        for site_of_page in ("cross-site", "same-site"):
            assert visitor.post("/queue/emails/pause", sec_fetch_site=site_of_page).status == 403
        assert not site.server.engine.insights.stats("emails").paused
        assert visitor.post("/queue/emails/pause").status == 303
        assert site.server.engine.insights.stats("emails").paused

    def test_a_token_of_another_visitor_is_refused(self, site: Served) -> None:
        visitor, other = Visitor(site.url), Visitor(site.url)
        visitor.get("/")
        other.get("/")
        assert visitor.csrf and visitor.csrf != other.csrf
        assert visitor.post("/queue/emails/pause", token=other.csrf).status == 403


class TestWithKeys:
    def test_no_page_is_shown_before(self, locked_site: Served) -> None:
        visitor = Visitor(locked_site.url)
        visitor.get("/login")
        for page in CLOSED:
            path = filled(page.path)
            if page.method == "GET":
                shown = visitor.get(path)
                assert shown.status == 303 and shown.headers["location"].startswith("/login?next=%2F"), path
                assert visitor.get(path, accept="application/json").status == 401, path
                assert visitor.get(path, fragment=True).headers["hx-redirect"].startswith("/login?next="), path
            else:
                assert visitor._send(page.method, path, {}, None, {}).status == 401, path

    def test_a_key_opens_a_session(self, locked_site: Served) -> None:
        visitor = Visitor(locked_site.url)
        assert visitor.log_in(ADMIN).status == 303
        shown = visitor.get("/")
        assert shown.status == 200 and "admin" in shown.words and "Log out" in shown.words

    def test_after_it_one_is_where_one_wanted_to_be(self, locked_site: Served) -> None:
        visitor = Visitor(locked_site.url)
        shown = visitor.follow(visitor.get("/queue/emails/?state=dead"))
        assert 'name="next" value="/queue/emails/?state=dead"' in shown.text
        assert (
            visitor.post("/login", {"key": ADMIN, "next": "/queue/emails/?state=dead"}).headers["location"] == "/queue/emails/?state=dead"
        )

    @pytest.mark.parametrize("next", ["https://evil.example", "//evil.example", "/\\evil.example", "javascript:alert(1)", "", "/\nx"])
    def test_another_site_is_not_where_one_wanted_to_be(self, locked_site: Served, next: str) -> None:
        visitor = Visitor(locked_site.url)
        visitor.get("/login")
        assert visitor.post("/login", {"key": ADMIN, "next": next}).headers["location"] == "/"

    @pytest.mark.parametrize(
        ("typed", "status"), [(b"", 401), (b"rowq_nobody", 401), (b"rowq_worker", 403), (b"x" * 5_000, 401), (b"\xed\xa0\x80", 400)]
    )
    def test_other_keys_do_not(self, locked_site: Served, typed: bytes, status: int) -> None:
        visitor = Visitor(locked_site.url)
        visitor.get("/login")
        assert visitor._send("POST", "/login", {"key": typed}, None, {}).status == status
        assert visitor.get("/").status == 303

    def test_the_cookie_is_kept_from_scripts_and_other_sites(self, locked_site: Served) -> None:
        visitor = Visitor(locked_site.url)
        cookie = visitor.log_in(ADMIN).headers["set-cookie"]
        assert cookie.startswith(f"{COOKIE}=")
        parts = {part.strip().lower() for part in cookie.split(";")[1:]}
        assert parts == {"httponly", "samesite=lax", "path=/", f"max-age={7 * 86_400}"}

    def test_beyond_this_machine_it_needs_tls(self, locked_site: Served) -> None:
        visitor = Visitor(locked_site.url, "queues.example.com")
        shown = visitor.get("/login")
        assert "secure" in shown.headers["set-cookie"].lower() and "https" in shown.words

    def test_a_cookie_from_before_the_log_in_opens_nothing(self, locked_site: Served) -> None:
        visitor, thief = Visitor(locked_site.url), Visitor(locked_site.url)
        visitor.get("/login")
        thief.cookies = dict(visitor.cookies)
        assert visitor.log_in(ADMIN).status == 303
        assert thief.cookies[COOKIE] != visitor.cookies[COOKIE] and thief.get("/").status == 303

    def test_a_log_out_ends_the_session_for_whoever_has_the_cookie(self, locked_site: Served) -> None:
        visitor, thief = Visitor(locked_site.url), Visitor(locked_site.url)
        visitor.log_in(ADMIN)
        thief.cookies = dict(visitor.cookies)
        assert thief.get("/").status == 200
        assert visitor.post("/logout", token="").status == 403
        assert visitor.post("/logout").headers["location"] == "/login"
        assert thief.get("/").status == visitor.get("/").status == 303

    def test_the_database_has_no_cookie(self, locked_site: Served, tmp_path: Path) -> None:
        visitor = Visitor(locked_site.url)
        visitor.log_in(ADMIN)
        told = b"".join(file.read_bytes() for file in tmp_path.glob("queue.db*"))
        assert visitor.cookies[COOKIE].encode() not in told and ADMIN.encode() not in told

    def test_it_ends_with_its_key(self, locked_site: Served) -> None:
        visitor = Visitor(locked_site.url)
        visitor.log_in(ADMIN)
        authenticator = locked_site.server.service.authenticator
        locked_site.server.service.authenticator = Authenticator([key("other", "admin")])
        assert visitor.get("/").status == 303
        locked_site.server.service.authenticator = Authenticator([key("admin", "receive")])
        assert visitor.get("/").status == 303
        locked_site.server.service.authenticator = Authenticator(
            [(key("admin", "admin")[0], digest_of("another secret under the same name"))]
        )
        assert visitor.get("/").status == 303
        locked_site.server.service.authenticator = authenticator
        assert visitor.get("/").status == 200

    def test_who_came_and_went_is_in_the_audit(self, locked_site: Served) -> None:
        visitor = Visitor(locked_site.url)
        visitor.log_in(ADMIN)
        visitor.post("/logout")
        told = [(event.event, event.actor) for event in locked_site.server.engine.insights.actions(None, 10)]
        assert told == [("signed_out", "key:admin"), ("signed_in", "key:admin")]

    def test_a_client_that_guesses_is_locked_out(self, locked_site: Served) -> None:
        visitor = Visitor(locked_site.url)
        statuses = [visitor.log_in(f"rowq_guess{number}").status for number in range(11)]
        assert statuses == [401] * 10 + [429]
        shown = visitor.log_in(ADMIN)
        assert shown.status == 429 and int(shown.headers["retry-after"]) <= 60
        assert visitor.get("/").status == 303

    def test_an_action_is_told_with_who_did_it(self, locked_site: Served) -> None:
        visitor = Visitor(locked_site.url)
        visitor.log_in(ADMIN)
        send(locked_site.server, "emails", 1)
        assert visitor.post("/queue/emails/pause").status == 303
        (event,) = locked_site.server.engine.insights.actions("emails", 10)
        assert (event.event, event.actor) == ("paused", "key:admin")

    def test_a_key_for_some_queues_touches_no_other(self, locked_site: Served) -> None:
        visitor = Visitor(locked_site.url)
        visitor.log_in("rowq_mailer")
        send(locked_site.server, "emails", 1)
        assert visitor.get("/queue/orders/").status == 403
        assert visitor.post("/queue/orders/pause").status == 403
        assert visitor.post("/queue/emails/pause").status == 303


def test_a_session_is_over_after_seven_days(tmp_path: Path) -> None:
    with serving(tmp_path, key("admin", "admin")) as server:
        visitor = Visitor(with_pages(server).url)
        visitor.log_in(ADMIN)
        clock = server.engine.clock
        later = clock.now() + LIFETIME_MS
        server.call(lambda: setattr(clock, "now", lambda: later - 60_000))
        assert visitor.get("/").status == 200
        server.call(lambda: setattr(clock, "now", lambda: later + 60_000))
        assert visitor.get("/").status == 303


def test_every_answer_is_told_not_to_run_anything_else(site: Served) -> None:
    for path in ("/", "/nowhere", "/login"):
        headers = Visitor(site.url).get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff" and headers["cache-control"] == "no-store"


def test_an_address_without_its_slash_leads_to_no_other_host(site: Served) -> None:
    assert Visitor(site.url).get("/queue/emails").status == 200
    for path in ("/queue/emails", "/dead/", "/login/"):
        shown = Visitor(site.url, "evil.example").get(path)
        assert shown.status == 403 and "location" not in shown.headers


@pytest.mark.parametrize(
    "path", ["/queue/%FF/", "/queue/a%00b/", "/%FF", "/queue/emails/messages/%2e%2e%2f/details", "/static/..%2fsite.py"]
)
def test_an_odd_address_is_refused(site: Served, path: str) -> None:
    assert Visitor(site.url).get(path).status in (400, 404)


def test_strangers_send_no_large_forms(locked_site: Served) -> None:
    visitor = Visitor(locked_site.url)
    visitor.get("/login")
    assert visitor.post("/login", {"key": "x" * 100_000}).status == 413
    visitor.log_in(ADMIN)
    send(locked_site.server, "emails", 1)
    assert visitor.post("/queue/emails/pause", {"x": "ä" * 100_000}).status == 303


def test_the_access_log_names_the_key_and_no_cookie(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with serving(tmp_path, key("admin", "admin")) as server:
        visitor = Visitor(server.serve_beside(AccessLog(Site(server.service))))
        with caplog.at_level("INFO", "rowq.access"):
            visitor.log_in(ADMIN)
    lines = [JsonFormatter().format(record) for record in caplog.records]
    assert [json.loads(line)["key"] for line in lines] == [None, None, "admin"]
    assert not [secret for secret in (ADMIN, visitor.cookies[COOKIE], visitor.csrf) if secret in "".join(lines)]


def test_programs_are_refused_in_json_and_people_on_a_page(site: Served) -> None:
    shown = Visitor(site.url).get("/nowhere", accept="application/json")
    assert (shown.status, json.loads(shown.text)["code"]) == (404, "not_found")
    page = Visitor(site.url).get("/nowhere<script>alert(1)</script>".replace("<", "%3C").replace(">", "%3E"))
    assert page.status == 404 and "<script>alert" not in page.text and "not_found" in page.words


def test_a_program_at_the_wrong_port_is_told_so(site: Served) -> None:
    with rowq.connect(site.url) as broker, pytest.raises(rowq.NotFound, match="this port serves the admin pages"):
        broker.queues()


def test_a_part_that_refreshes_itself_does_not_swallow_the_notice(site: Served) -> None:
    visitor = Visitor(site.url)
    visitor.get("/")
    send(site.server, "emails", 1)
    assert visitor.post("/queue/emails/pause").status == 303
    part = visitor.get("/queue/emails/", fragment=True, hx_request_type="full")
    page = visitor.get("/queue/emails/")
    assert 'role="status"' not in part.text and 'role="status"' in page.text
    assert 'role="status"' not in visitor.get("/queue/emails/").text
