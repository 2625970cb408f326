"""The outbox: an order and the message about it are written in one transaction, so there is never one without the other.

    python examples/outbox.py

A shop keeps its orders in a table of its own. Each order must lead to one mail. If the order were committed first and the message
sent afterwards, a crash in between would lose the mail; the other way round, a mail could go out for an order that does not exist.
`broker.within(connection)` puts both into the shop's own transaction.
"""

# ruff: noqa: T201  # an example talks to its reader

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import rowq


class OutOfStock(Exception):
    """The shop cannot deliver."""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "shop.db"
        # One file for both: the shop's tables and the queue's.
        with rowq.connect(f"sqlite:///{file}") as broker, closing(sqlite3.connect(file)) as shop:
            shop.execute("CREATE TABLE orders (number INTEGER PRIMARY KEY, customer TEXT, article TEXT)")
            for customer, article in (("ada", "lamp"), ("bob", "unicorn"), ("eve", "chair")):
                try:
                    number = place_order(shop, broker, customer, article)
                    print(f"order {number}: a {article} for {customer}")
                except OutOfStock:
                    print(f"no {article} for {customer}: no order, and no mail")
            mails = send_mails(shop, broker)
            orders = shop.execute("SELECT COUNT(*) FROM orders").fetchone()[0]
            print(f"{orders} orders, {mails} mails")


def place_order(shop: sqlite3.Connection, broker: rowq.Broker, customer: str, article: str) -> int:
    """Write both or neither: the block commits the shop's transaction at its end, and rolls it back on any error."""
    with shop:
        row = shop.execute("INSERT INTO orders (customer, article) VALUES (?, ?) RETURNING number", (customer, article)).fetchone()
        number = int(row[0])
        broker.within(shop).send("mails", {"order": number})
        if article == "unicorn":
            raise OutOfStock(article)
        return number


def send_mails(shop: sqlite3.Connection, broker: rowq.Broker) -> int:
    """A mailer would do this in an endless loop; here it stops at the first empty receive."""
    count = 0
    while deliveries := broker.receive("mails", max=10):
        for delivery in deliveries:
            number = delivery.payload["order"]
            customer, article = shop.execute("SELECT customer, article FROM orders WHERE number = ?", (number,)).fetchone()
            print(f"mail to {customer}: your {article} is on its way")
            broker.ack(delivery)
            count += 1
    return count


if __name__ == "__main__":
    main()
