"""Django with PyMySQL in place of mysqlclient. A process of its own: only one of the two can be `MySQLdb`.

`python -m tests.support.holders.django_on_pymysql URL` prints what arrived in the queue, and what was said outside of a transaction.
"""

from __future__ import annotations

import sys
from contextlib import suppress

import django
import pymysql
from django.conf import settings
from django.db import connection, transaction

import rowq
from tests.support.holders.django import settings_for
from tests.support.holders.holder import Undo
from tests.support.life import drain


def main(url: str) -> None:
    pymysql.version_info = (2, 2, 8, "final", 0)  # what Django asks of mysqlclient
    pymysql.install_as_MySQLdb()
    settings.configure(DATABASES={"default": settings_for(url)})
    django.setup()
    with rowq.connect(url, maintenance=False) as broker:
        verbs = broker.within(connection)
        with transaction.atomic():
            verbs.send("q", "kept")
            with suppress(Undo), transaction.atomic():
                verbs.send("q", "undone")
                raise Undo
        with suppress(Undo), transaction.atomic():
            verbs.send("q", "rolled back")
            raise Undo
        assert isinstance(connection.connection, pymysql.Connection)
        sys.stdout.write(f"{drain(broker)}\n")
        try:
            verbs.send("q", "late")
        except rowq.InvalidArgument as refused:
            sys.stdout.write(f"{refused}\n")
    connection.close()


if __name__ == "__main__":
    main(sys.argv[1])
