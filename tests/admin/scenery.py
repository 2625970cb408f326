"""A shop that has been open for an hour: what its queues, consumers and operators have left behind, and what goes on in it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

from rowq import Broker, Delivery, Draft, ManualClock
from rowq.clock import SystemClock
from rowq.connect import open_engine
from rowq.engine.engine import Engine
from rowq.spark.ledger import Ledger

MESSAGE = "receipt-1042"
"""Of `emails`: it failed twice, went through at last, and is kept."""

_STEP = 20.0
_STEPS = 180
_TRACE = 'Traceback (most recent call last):\n  File "/app/mailer.py", line 88, in deliver\n    smtp.sendmail(sender, [to], text)\n'
_FAILURES = {
    "emails": [
        "SMTPRecipientsRefused: 550 5.1.1 <{name}@example.com>: mailbox unavailable",
        "TimeoutError: smtp.example.com:587 did not answer within 30 s",
        _TRACE + "smtplib.SMTPServerDisconnected: Connection unexpectedly closed by 198.51.100.{number}",
    ],
    "webhooks": [
        "HTTP 503 from https://hooks.example.com/{name}: upstream connect error",
        "HTTP 410 from https://hooks.example.com/{name}: this endpoint is gone",
    ],
    "thumbnails": ["UnidentifiedImageError: cannot identify image file 'upload-{number}.heic'"],
}
_FINAL = ("550", "410", "cannot identify")
"""Of these no second try is made."""
_NAMES = ("ada", "grace", "alan", "edsger", "barbara", "donald", "katherine", "linus", "margaret", "tim")


@dataclass(frozen=True)
class _Trade:
    """What happens in a queue in a step: how many messages come, how many go, and how often that fails."""

    queue: str
    sent: int
    taken: int
    failing: float
    consumers: tuple[str, ...]


_TRADES = (
    _Trade("emails", 14, 16, 0.05, ("mailer-1", "mailer-2")),
    _Trade("orders", 9, 12, 0.0, ("checkout-1", "checkout-2", "checkout-3")),
    _Trade("thumbnails", 22, 24, 0.01, ("resizer-1",)),
    _Trade("webhooks", 6, 8, 0.22, ("hooks-1",)),
    _Trade("invoices", 1, 2, 0.0, ("printer",)),
)


def build(url: str) -> None:
    """Fills a new database with the hour that ends now."""
    now = SystemClock().now()
    clock = ManualClock(now - round(_STEP * _STEPS * 1000))
    with Broker(open_engine(url, clock=clock, maintenance=False, actor="shop")) as broker:
        _configure(broker)
        random = Random(7)
        for step in range(_STEPS):
            clock.advance(_STEP)
            for trade in _TRADES:
                _act(broker, trade, random, step)
            broker.maintain()
        _operate(broker)
    engine = open_engine(url, maintenance=False, actor="shop")
    try:
        _leave_something_in_every_state(engine)
    finally:
        engine.close()


@contextmanager
def business(engine: Engine) -> Iterator[None]:
    """Goes on for as long as the block: messages come, and consumers that are alive work on them."""
    is_over = threading.Event()
    broker = Broker(engine)
    random = Random(11)

    def work(delivery: Delivery) -> None:
        is_over.wait(random.uniform(0.02, 0.2))

    def trade() -> None:
        while not is_over.wait(0.25):
            for trade in _TRADES[:3]:
                broker.send_many(trade.queue, [_draft(trade.queue, random) for _ in range(random.randint(1, 3))])

    with ExitStack() as stack:
        for queue, concurrency in (("emails", 1), ("orders", 2), ("orders", 2), ("thumbnails", 4)):
            stack.enter_context(broker.consumer(queue, work, concurrency=concurrency, wait=0.2))
        thread = threading.Thread(target=trade, name="shop")
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()


def _configure(broker: Broker) -> None:
    broker.configure("emails", keep="body", max_attempts=3, backoff=[1, 30], lease=60, retention=86_400)
    broker.configure("orders", lease=120, max_depth=50_000)
    broker.configure("thumbnails", ttl=600, throughput_limit=200)
    broker.configure("webhooks", max_attempts=3, backoff=[5, 60], dlq_ttl=30 * 86_400)
    broker.configure("invoices", keep="outcome", schema={"type": "object", "required": ["order", "total"]})


def _act(broker: Broker, trade: _Trade, random: Random, step: int) -> None:
    wave = 1 + 0.5 * abs((step % 60) / 30 - 1)
    broker.send_many(trade.queue, [_draft(trade.queue, random) for _ in range(max(1, round(trade.sent * wave * random.uniform(0.6, 1.2))))])
    if trade.queue == "emails" and step == 100:
        broker.send("emails", _receipt(), id=MESSAGE, key="order-1042", priority=9, headers={"trace": "4bf92f3577b34da6", "shop": "eu-1"})
    for consumer in trade.consumers:
        most = max(1, round(trade.taken * wave / len(trade.consumers)))
        found = broker.receive(trade.queue, max=most, consumer=consumer)
        failed = [one for one in found if (one.attempt < 3 if one.id == MESSAGE else random.random() < trade.failing)]
        for delivery in failed:
            reason = _failure(trade.queue, random)
            is_final = delivery.id != MESSAGE and any(word in reason for word in _FINAL)
            (broker.reject if is_final else broker.nack)(delivery, reason=reason)
        broker.ack_many(one for one in found if one not in failed)


def _operate(broker: Broker) -> None:
    broker.redrive("webhooks", limit=5)
    broker.create_key("billing", scopes=["send"], queues=["invoices"])
    broker.create_key("dashboards", scopes=["metrics"])
    broker.pause("invoices")


def _leave_something_in_every_state(engine: Engine) -> None:
    broker, random = Broker(engine), Random(3)
    broker.send_many("emails", [_draft("emails", random) for _ in range(400)])
    broker.send_many("emails", [Draft({"template": "birthday 🎂", "to": f"{name}@example.com"}, delay=3_600) for name in _NAMES])
    broker.send_many("emails", [Draft({"template": "code", "to": f"{name}@example.com"}, ttl=0.001) for name in _NAMES[:3]])
    broker.send_many(
        "orders",
        [
            Draft({"order": 2_000 + number, "step": step}, group=f"customer-{number}")
            for number in range(4)
            for step in ("pay", "pack", "ship")
        ],
    )
    broker.send_many("invoices", [_draft("invoices", random) for _ in range(37)])
    broker.receive("orders", max=3, lease=900, consumer="checkout-1")
    broker.receive("webhooks", max=2, lease=900, consumer="hooks-1")
    broker.send_many("clicks", [{"page": f"/shop/{random.choice(_NAMES)}", "at": number} for number in range(900)])
    ledger = Ledger(engine)
    held = ledger.claim("clicks-to-lake", ["clicks"])
    ledger.take("clicks-to-lake", held.epoch, 0, 500)
    broker.maintain()


def _draft(queue: str, random: Random) -> Draft:
    name, number = random.choice(_NAMES), random.randint(1_000, 9_999)
    payload: dict[str, dict[str, Any]] = {
        "emails": {"to": f"{name}@example.com", "template": random.choice(["welcome", "receipt", "newsletter"]), "order": number},
        "orders": {"order": number, "customer": name, "total": f"{number / 100:.2f}", "currency": "EUR"},
        "thumbnails": {"image": f"s3://uploads/{name}/{number}.jpg", "sizes": [64, 256, 1024]},
        "webhooks": {"url": f"https://hooks.example.com/{name}", "event": "order.paid", "order": number},
        "invoices": {"order": number, "total": f"{number / 100:.2f}"},
    }
    return Draft(payload[queue], key=f"order-{number}" if queue == "orders" else None)


def _receipt() -> dict[str, Any]:
    lines = [{"article": "Notebook, dotted", "count": 3, "price": "4.50"}, {"article": "Pencil ✏️", "count": 12, "price": "0.80"}]
    return {"to": "ada@example.com", "template": "receipt", "order": 1042, "lines": lines, "total": "23.10", "currency": "EUR"}


def _failure(queue: str, random: Random) -> str:
    return (
        random.choice(_FAILURES[queue]).format(name=random.choice(_NAMES), number=random.randint(1, 250))
        if queue in _FAILURES
        else "failed"
    )
