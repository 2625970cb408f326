"""URLs that lead elsewhere: the same database by another way, or as another user."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit


def altered(url: str, *, user: str | None = None, host: str | None = None, port: int | None = None, database: str | None = None) -> str:
    """By TCP; `user` is `name:password`, as it stands in a URL."""
    parts = urlsplit(url)
    own, _, _ = parts.netloc.rpartition("@")
    place = f"{user or own}@{host or parts.hostname}:{port or parts.port}"
    return urlunsplit(parts._replace(netloc=place, path=parts.path if database is None else f"/{database}", query=""))
