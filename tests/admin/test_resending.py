"""A dead letter edited and sent as a new message."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from rowq.model.lifecycle import Reject
from tests.admin.accessibility import assert_accessible
from tests.admin.conftest import Served
from tests.admin.letters import count, kill
from tests.admin.visiting import Shown, Visitor
from tests.support.server import Server


def filled_in(shown: Shown) -> dict[str, str]:
    """What a browser would send of the form as it is."""
    assert shown.status == 200
    fields = {name: unescape(value) for name, value in re.findall(r'<input id="[^"]+" name="([^"]+)" value="([^"]*)"', shown.text)}
    fields |= {
        name: unescape(text) for name, text in re.findall(r'<textarea[^>]* name="([^"]+)"[^>]*>\n?(.*?)</textarea>', shown.text, re.DOTALL)
    }
    (fields["kind"],) = re.findall(r'name="kind" value="([^"]+)" checked', shown.text)
    return fields


def newest(server: Server) -> str:
    return server.engine.insights.browse("emails")[-1].id


def test_the_form_has_everything_that_the_letter_had(server: Server, visitor: Visitor) -> None:
    options: dict[str, Any] = {
        "key": "k",
        "group": "g",
        "priority": 3,
        "headers": {"trace": "1"},
        "max_attempts": 2,
        "backoff": [1, 5],
        "ttl": 3600,
    }
    (id,) = kill(server, "emails", {"to": "ada", "n": [1, "<b>🎉"]}, **options)
    url = f"/queue/emails/messages/{id}/resend"
    shown = visitor.post(url, filled_in(visitor.get(url)))
    assert "Sent as a new message." in visitor.follow(shown).words
    old, new = server.engine.insights.get(id), server.engine.insights.get(newest(server))
    assert new.id != id and (old.state, new.state) == ("dead", "ready")
    for name in ("payload", "key", "group", "priority", "headers", "max_attempts", "backoff", "ttl_ms"):
        assert getattr(new, name) == getattr(old, name), name


@pytest.mark.parametrize(
    "payload", ["plain text\nwith lines", "", "\u202e\x1b[31m", 7, None, b"\x00\xff", b"", {"a": "</textarea><script>"}]
)
def test_a_payload_comes_through_unchanged(server: Server, visitor: Visitor, payload: object) -> None:
    (id,) = kill(server, "emails", payload)
    url = f"/queue/emails-dlq/messages/{id}/resend"
    assert visitor.post(url, filled_in(visitor.get(url))).status == 303
    assert server.engine.insights.get(newest(server)).payload == payload


def test_the_letter_goes_once_the_new_message_is_there_if_somebody_says_so(server: Server, visitor: Visitor) -> None:
    (id,) = kill(server, "emails", {"to": "adda"})
    url = f"/queue/emails/messages/{id}/resend"
    fields = {**filled_in(visitor.get(url)), "payload": '{"to": "ada"}', "removal": "yes"}
    assert "The dead letter was deleted." in visitor.follow(visitor.post(url, fields)).words
    assert count(server, "emails", "dead") == 0
    assert server.engine.insights.get(newest(server)).payload == {"to": "ada"}


@pytest.mark.parametrize(
    ("settings", "fields"),
    [
        ({}, {"payload": "{no JSON"}),
        ({}, {"priority": "many"}),
        ({"max_payload_bytes": 4}, {}),
        ({"max_depth": 1}, {}),
        ({"schema": {"type": "string"}}, {}),
    ],
)
def test_nothing_is_deleted_if_it_cannot_be_sent(
    server: Server, visitor: Visitor, settings: dict[str, object], fields: dict[str, str]
) -> None:
    drive, verbs = server.engine.driver.drive, server.engine.verbs
    (id,) = kill(server, "emails", {"to": "ada"})
    drive(verbs.send("emails", 1, {}))
    drive(verbs.configure("emails", dict(settings)))
    url = f"/queue/emails/messages/{id}/resend"
    typed = {**filled_in(visitor.get(url)), "key": "typed before", "removal": "yes", **fields}
    shown = visitor.post(url, typed)
    assert 400 <= shown.status < 500 and "typed before" in shown.text and re.search(r'name="removal"[^>]* checked', shown.text)
    assert (count(server, "emails", "dead"), count(server, "emails", "ready")) == (1, 1)


def test_a_letter_that_is_gone_meanwhile(server: Server, visitor: Visitor) -> None:
    (id,) = kill(server, "emails", {"to": "ada"})
    url = f"/queue/emails/messages/{id}/resend"
    typed = filled_in(visitor.get(url))
    server.engine.driver.drive(server.engine.verbs.redrive("emails", [id], None, None, None, None))
    for shown in (visitor.get(url), visitor.post(url, typed), visitor.get("/queue/emails/messages/nobody/resend")):
        assert shown.status == 404
    assert count(server, "emails", "ready") == 1


def test_only_a_dead_letter_of_that_queue(server: Server, visitor: Visitor) -> None:
    (id,) = kill(server, "orders", 1)
    shown = visitor.get(f"/queue/emails/messages/{id}/resend", accept="application/json")
    assert (shown.status, json.loads(shown.text)["code"]) == (404, "not_found.message")


def test_a_key_for_other_queues_and_a_forged_form(locked_site: Served) -> None:
    (mail,) = kill(locked_site.server, "emails", 1)
    (order,) = kill(locked_site.server, "orders", 1)
    mailer = Visitor(locked_site.url)
    mailer.log_in("rowq_mailer")
    typed = {"kind": "json", "payload": "1", "removal": "yes"}
    assert mailer.get(f"/queue/orders/messages/{order}/resend").status == 403
    assert mailer.post(f"/queue/orders/messages/{order}/resend", typed).status == 403
    assert mailer.get(f"/queue/emails/messages/{order}/resend").status == 404
    assert mailer.post(f"/queue/emails/messages/{mail}/resend", typed, token="").status == 403
    assert count(locked_site.server, "orders", "dead") == count(locked_site.server, "emails", "dead") == 1


def test_in_a_browser(page: Page, server: Server) -> None:
    (id,) = kill(server, "emails", {"to": "adda"})
    page.goto("/queue/emails-dlq/")
    page.get_by_role("link", name=f"Edit {id}").click()
    assert_accessible(page)
    page.get_by_role("textbox", name="Payload").fill('{"to": "ada"}')
    page.get_by_label("Delete the dead letter").check()
    page.get_by_role("button", name="Send as a new message").click()
    expect(page.get_by_role("status").first).to_have_text("Sent as a new message. The dead letter was deleted.")
    (delivery,) = server.engine.driver.drive(server.engine.verbs.receive("emails", 1, 5, None, None, None, None))
    assert delivery.payload == {"to": "ada"}
    server.engine.driver.drive(server.engine.verbs.settle(delivery, Reject("no more")))
