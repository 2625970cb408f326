"""The form that sends a message: what is typed is what is sent, and what is wrong is told where it stands."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from playwright.sync_api import Page, expect

from rowq.model.lifecycle import Reject
from rowq.model.message import Message
from rowq.model.retry import Delays
from rowq.server.admin import send as sending
from rowq.wire import of_message
from tests.admin.browser import Faults
from tests.admin.conftest import Served
from tests.admin.visiting import Shown, Visitor
from tests.admin.working import configure, receive, send, settle
from tests.server.support import ask
from tests.support.server import Server


def sent(server: Server, shown: Shown) -> Message:
    assert shown.status == 303, shown.words
    return server.engine.insights.get(shown.headers["location"].split("/")[4])


class TestSending:
    @pytest.mark.parametrize(
        ("kind", "typed", "payload"),
        [
            (
                "json",
                ' {"to": "ada", "n": 12345678901234567890, "list": [1.50, null]}\r\n',
                {"to": "ada", "n": 12345678901234567890, "list": [1.5, None]},
            ),
            ("json", '"a text"', "a text"),
            ("text", '{"not": "read"}', '{"not": "read"}'),
            ("text", "two\r\nlines ", "two\nlines "),
            ("text", "", ""),
            ("base64", "AAEC\r\n /w==", b"\x00\x01\x02\xff"),
            ("text", "<script>\u202e🎉</script>", "<script>\u202e🎉</script>"),
        ],
    )
    def test_each_kind_of_payload(self, server: Server, visitor: Visitor, kind: str, typed: str, payload: Any) -> None:
        assert sent(server, visitor.post("/queue/emails/send", {"kind": kind, "payload": typed})).payload == payload

    def test_every_option(self, server: Server, visitor: Visitor) -> None:
        fields = {
            "kind": "json",
            "payload": "1",
            "headers": "trace: 4bf9\r\nurl: http://x:80/\r\n\r\n",
            "key": "k",
            "group": "g",
            "priority": "-7",
            "delay": "90s",
            "ttl": "2h",
            "deadline": "1d",
            "max_attempts": "4",
            "backoff": "1s,1m",
            "keys_if_undelivered": '[["customers", 42]]',
            "id": "order:42",
        }
        message = sent(server, visitor.post("/queue/emails/send", fields))
        assert (message.id, message.queue, message.state) == ("order:42", "emails", "scheduled")
        assert message.headers == {"trace": "4bf9", "url": "http://x:80/"}
        assert (message.key, message.group, message.priority, message.max_attempts) == ("k", "g", -7, 4)
        assert (message.ttl_ms, message.backoff, message.keys_if_undelivered) == (7_200_000, Delays((1000, 60_000)), [["customers", 42]])
        assert message.due_at is not None and message.due_at - message.sent_at == 90_000
        assert message.deadline is not None and message.deadline - message.sent_at == 86_400_000

    def test_a_quarter_of_a_megabyte(self, server: Server, visitor: Visitor) -> None:
        text = "ü<b>" * 50_000
        assert sent(server, visitor.post("/queue/emails/send", {"kind": "text", "payload": text})).payload == text

    @pytest.mark.parametrize(
        ("field", "typed", "sentence"),
        [
            ("payload", "{not json", "cannot be read as JSON"),
            ("payload", '1, "id": "smuggled"', "cannot be read as JSON"),
            ("payload", "", "the payload is missing"),
            ("payload", "[" * 300 + "]" * 300, "nested"),
            ("headers", "no colon", "is not a header"),
            ("priority", "high", "is not a whole number"),
            ("priority", "99999999999", "Expected `int`"),
            ("delay", "soon", "is not a duration"),
            ("ttl", "-1s", "is not a duration"),
            ("max_attempts", "1.5", "is not a whole number"),
            ("backoff", "sometimes", "is no"),
            ("keys_if_undelivered", '{"a": 1}', "write a list of keys"),
            ("key", "k" * 300, "length"),
            ("id", "not an id", ""),
        ],
    )
    def test_what_is_wrong_stands_at_its_field(self, server: Server, visitor: Visitor, field: str, typed: str, sentence: str) -> None:
        fields = {"kind": "json", "payload": "1", "key": "kept <b>", field: typed}
        shown = visitor.post("/queue/emails/send", fields)
        assert shown.status == 400 and sentence in shown.words
        if field != "id":
            assert f'id="{field}-wrong"' in shown.text
        assert "kept &lt;b&gt;" in shown.text or field == "key"
        assert [stats.queue for stats in server.engine.insights.queues()] == []

    def test_what_the_queue_refuses_stands_there_too(self, server: Server, visitor: Visitor) -> None:
        configure(server, "emails", schema={"type": "object"}, max_payload_bytes=20)
        shown = visitor.post("/queue/emails/send", {"kind": "json", "payload": "1"})
        assert shown.status == 422 and 'id="payload-wrong"' in shown.text
        shown = visitor.post("/queue/emails/send", {"kind": "text", "payload": "x" * 30})
        assert shown.status == 413 and 'id="payload-wrong"' in shown.text and "x" * 30 in shown.text
        send(server, "orders", 1, id="taken")
        shown = visitor.post("/queue/orders/send", {"kind": "json", "payload": "1", "id": "taken"})
        assert shown.status == 409 and 'id="id-wrong"' in shown.text
        configure(server, "orders", max_depth=1)
        assert visitor.post("/queue/orders/send", {"kind": "json", "payload": "1"}).status == 429

    def test_nothing_is_sent_to_dead_letters(self, visitor: Visitor) -> None:
        assert visitor.get("/queue/emails-dlq/send").status == 400
        assert visitor.post("/queue/emails-dlq/send", {"kind": "json", "payload": "1"}).status == 400


class TestMessagesAsTyped:
    """What edit-and-resend begins with: typed again as it stands, it is the same message."""

    @pytest.mark.parametrize(
        "payload", [{"a": [1, "ü\u2028"]}, "text\nof lines", " \n leading", "bell \x07 and \r", b"\x00\xff", b"", None, 1.5, "", "null"]
    )
    def test_a_payload(self, server: Server, payload: Any) -> None:
        assert _again(server, payload).payload == payload

    @pytest.mark.parametrize(
        "headers", [{"a": "b"}, {"a": ""}, {"a:b": "c"}, {"a": "two\nlines"}, {" a ": " b "}, {"": "x"}, {"{": "}"}, {"a": "c: d"}]
    )
    def test_headers(self, server: Server, headers: dict[str, str]) -> None:
        assert _again(server, 1, headers=headers).headers == headers

    def test_options(self, server: Server) -> None:
        options: dict[str, Any] = {"key": " k ", "group": "g", "priority": -3, "ttl": 1.5, "deadline": 60, "max_attempts": 0}
        again = _again(server, 1, **options, backoff=[0.5], keys_if_undelivered=["a", ["b", 1]])
        assert (again.key, again.group, again.priority, again.ttl_ms, again.max_attempts) == (" k ", "g", -3, 1500, 0)
        assert (again.backoff, again.keys_if_undelivered) == (Delays((500,)), [["a"], ["b", 1]])
        assert again.deadline is not None and again.deadline - again.sent_at == 60_000


def _again(server: Server, payload: Any, **options: Any) -> Message:
    first = server.engine.insights.get(send(server, "first", payload, **options))
    body, problems = sending.read(sending.typed_of(of_message(first)))
    assert body is not None, problems
    answer = ask(server, "POST", "/v1/queues/again/messages", msgspec.json.encode(body))
    assert answer.status == 201, answer
    return server.engine.insights.get(answer.json["id"])


class TestInTheBrowser:
    def test_a_message_is_typed_and_sent(self, page: Page, site: Served) -> None:
        page.goto("/queue/emails/")
        page.get_by_role("link", name="Send", exact=True).click()
        page.get_by_label("Payload", exact=True).fill('{"to": "ada"}')
        page.get_by_label("Key", exact=True).fill("welcome-42")
        page.get_by_text("Headers and more options").click()
        page.get_by_label("Headers", exact=True).fill("trace: 4bf9\nsource: page")
        page.get_by_role("button", name="Send").click()
        expect(page.get_by_role("status")).to_have_text("The message was sent.")
        (delivery,) = receive(site.server, "emails")
        assert (delivery.payload, delivery.key, delivery.headers) == ({"to": "ada"}, "welcome-42", {"trace": "4bf9", "source": "page"})

    def test_what_was_typed_stays(self, page: Page, faults: Faults) -> None:
        faults.allow("400")
        page.goto("/queue/emails/send")
        page.get_by_label("Payload", exact=True).fill("\n{oops <b>")
        page.get_by_label("Text", exact=True).check()
        page.get_by_label("Delay").fill("soon")
        page.get_by_role("button", name="Send").click()
        expect(page.get_by_label("Payload", exact=True)).to_have_value("\n{oops <b>")
        expect(page.get_by_label("Text", exact=True)).to_be_checked()
        expect(page.get_by_label("Delay")).to_have_value("soon")
        expect(page.get_by_label("Delay")).to_have_attribute("aria-invalid", "true")

    def test_a_dead_letter_is_edited_in_the_same_form(self, page: Page, site: Served) -> None:
        send(site.server, "emails", {"to": "adaa"}, key="k")
        settle(site.server, receive(site.server, "emails")[0], Reject("no such address"))
        page.goto("/queue/emails-dlq/")
        page.get_by_role("link", name="Edit").first.click()
        page.get_by_label("Payload", exact=True).fill('{"to": "ada"}')
        page.get_by_role("button", name="Send as a new message").click()
        expect(page.get_by_role("status")).to_contain_text("Sent as a new message")
        assert receive(site.server, "emails")[0].payload == {"to": "ada"}
