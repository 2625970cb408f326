"""A visitor without a browser: keeps its cookies, knows its CSRF token, and shows what was answered. For what HTTP alone can tell."""

from __future__ import annotations

import http.client
import re
import time
from collections.abc import Mapping, Sequence
from html import unescape
from http.cookies import SimpleCookie
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

HTML = "text/html,application/xhtml+xml"
_TOKEN = re.compile(r'"X-CSRF-Token": "([0-9a-f]{64})"')


def quickest(visitor: Visitor, path: str) -> float:
    """Seconds of CPU time that the page takes, here and in the server, which is of this process: the shortest of three times."""

    def once() -> float:
        started = time.process_time()
        assert visitor.get(path).status == 200
        return time.process_time() - started

    return min(once() for _ in range(3))


class Shown(NamedTuple):
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def words(self) -> str:
        """What somebody reads: without tags, and with entities as characters."""
        return " ".join(unescape(re.sub(r"<[^>]*>", " ", self.text)).split())


class Visitor:
    def __init__(self, url: str, host: str | None = None) -> None:
        self._address = urlsplit(url)
        self._host = host or self._address.netloc
        self.cookies: dict[str, str] = {}
        self.csrf = ""

    def get(self, path: str, *, fragment: bool = False, **headers: str) -> Shown:
        return self._ask("GET", path, None, {"HX-Request": "true"} if fragment else {}, headers)

    def post(
        self, path: str, fields: Mapping[str, str | Sequence[str]] | None = None, *, token: str | None = None, **headers: str
    ) -> Shown:
        """A form, with the token of the last page unless another is given; an empty one is left out."""
        return self._send("POST", path, dict(fields or {}), token, headers)

    def delete(self, path: str, *, token: str | None = None, **headers: str) -> Shown:
        return self._send("DELETE", path, {}, token, headers)

    def follow(self, shown: Shown) -> Shown:
        assert shown.status == 303, shown
        return self.get(shown.headers["location"])

    def log_in(self, secret: str) -> Shown:
        self.get("/login")
        shown = self.post("/login", {"key": secret})
        if shown.status == 303:
            self.get("/")  # the token belongs to the session
        return shown

    def _send(self, method: str, path: str, fields: dict[str, Any], token: str | None, headers: Mapping[str, str]) -> Shown:
        chosen = self.csrf if token is None else token
        if chosen:
            fields["csrf"] = chosen
        form = {"content-type": "application/x-www-form-urlencoded"}
        return self._ask(method, path, urlencode(fields, doseq=True).encode(), form, headers)

    def _ask(self, method: str, path: str, body: bytes | None, more: Mapping[str, str], headers: Mapping[str, str]) -> Shown:
        lines = {"host": self._host, "accept": HTML, **more, **{name.replace("_", "-"): value for name, value in headers.items()}}
        if self.cookies:
            lines["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        connection = http.client.HTTPConnection(self._address.hostname or "", self._address.port, timeout=20)
        try:
            connection.request(method, path, body, lines)
            answer = connection.getresponse()
            shown = Shown(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read().decode())
            self._remember(answer.headers.get_all("set-cookie") or [])
        finally:
            connection.close()
        if found := _TOKEN.search(shown.text):
            self.csrf = found[1]
        return shown

    def _remember(self, lines: list[str]) -> None:
        for line in lines:
            for name, morsel in SimpleCookie(line).items():
                self.cookies.pop(name, None)
                if morsel["max-age"] != "0":
                    self.cookies[name] = morsel.value
