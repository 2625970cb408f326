"""Debian's Chromium, driven by Playwright, which brings none of its own; and what may not happen in it."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Error, Page, Request, WebError, expect, sync_playwright

from tests.support.patience import DEADLINE
from tests.support.servers.server import Unavailable, program

_PATIENCE_MS = DEADLINE * 1000
_CALLED_OFF = "net::ERR_ABORTED"
"""How a request ends that the browser has itself called off: its page was left, or a newer one took its place."""

_TELL_OF_BREACHES = """
addEventListener("securitypolicyviolation", breach =>
    console.error(`Content Security Policy: ${breach.effectiveDirective} forbids ${breach.blockedURI}`))
"""
"""The console does not tell of those that a script has got over, such as an eval in a try."""


@contextmanager
def chromium(**environment: str) -> Iterator[Browser]:
    """Started in a second, gone with the block. An event loop of Playwright's runs in this thread meanwhile, so nothing here can
    call `asyncio.run`: what needs a loop has a `LoopThread`."""
    where = shutil.which("chromium-headless-shell") or program("chromium", "chromium")  # the shell alone needs half the processor
    expect.set_options(timeout=_PATIENCE_MS)
    with sync_playwright() as playwright:
        try:
            # As root, which is how containers run, Chromium has no sandbox to offer. It sees only our own pages.
            browser = playwright.chromium.launch(
                executable_path=where, chromium_sandbox=os.geteuid() != 0, env={**os.environ, **environment}
            )
        except Error as error:
            raise Unavailable(f"{where} does not start: {error.message}") from error
        try:
            yield browser
        finally:
            browser.close()


class Faults:
    """Everything that a browser complains of: errors on the console (a breach of the content security policy is one, and so is an
    answer of 400 or more), errors that no script caught, and requests that got no answer."""

    def __init__(self) -> None:
        self._seen: list[str] = []
        self._allowed: list[str] = []

    def allow(self, *patterns: str) -> None:
        """What this test provokes on purpose: regular expressions, each searched for in a complaint."""
        self._allowed += patterns

    def watch(self, context: BrowserContext) -> None:
        context.on("console", self._on_console)
        context.on("weberror", self._on_error)
        context.on("requestfailed", self._on_failure)

    @property
    def found(self) -> list[str]:
        return [fault for fault in self._seen if not any(re.search(pattern, fault) for pattern in self._allowed)]

    def check(self) -> None:
        assert not self.found, "\n".join(["the browser complained:", *self.found])

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self._seen.append(f"console: {message.text} ({message.location['url']})")

    def _on_error(self, error: WebError) -> None:
        self._seen.append(f"uncaught: {error.error} ({error.page.url if error.page else 'no page'})")

    def _on_failure(self, request: Request) -> None:
        if request.failure != _CALLED_OFF:
            self._seen.append(f"no answer: {request.method} {request.url}: {request.failure}")


class Windows:
    """The pages that a test has open, each with cookies of its own. `find` gives the browser, once there is a page to open."""

    def __init__(self, find: Callable[[], Browser], faults: Faults) -> None:
        self._find = find
        self._faults = faults
        self._contexts: list[BrowserContext] = []

    def open(self, url: str, **options: Any) -> Page:
        """A page of a browser that was never here. `goto("/…")` is meant from `url` on; options are those of Playwright's contexts:
        `color_scheme="dark"`, `viewport={"width": 390, "height": 844}`, `java_script_enabled=False`."""
        context = self._find().new_context(**{"base_url": url, "reduced_motion": "reduce", **options})
        self._contexts.append(context)
        context.set_default_timeout(_PATIENCE_MS)
        context.add_init_script(_TELL_OF_BREACHES)
        self._faults.watch(context)
        return context.new_page()

    def close(self) -> None:
        while self._contexts:
            context = self._contexts.pop()
            for page in context.pages:
                _hear_out(page)
            context.close()


def log_in(page: Page, secret: str) -> None:
    """As an operator does it, who knows no more than the key."""
    page.goto("/login")
    key = page.locator("input[type=password]")
    key.fill(secret)
    key.press("Enter")
    page.wait_for_url(lambda url: "/login" not in url)


def _hear_out(page: Page) -> None:
    """Its answer comes after all that it has complained of so far."""
    with suppress(Error):
        page.evaluate("0")
