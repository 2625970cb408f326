"""The application that keeps its own tables where the queue is, and writes both in one transaction."""

from __future__ import annotations

import sqlite3
from typing import Any

import psycopg

from tests.support.servers.mariadb import connected


def own_connection(url: str) -> Any:
    """It opens a transaction by itself, and commits when it is told to."""
    if url.startswith("postgresql://"):
        return psycopg.connect(url)
    if url.startswith("mariadb://"):
        return connected(url, autocommit=False)
    return sqlite3.connect(url.removeprefix("sqlite:///"), timeout=30, check_same_thread=False)
