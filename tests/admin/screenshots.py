"""`make screenshots`: the pages of a busy server, light and dark, as pictures for the documents.

With names of pages (`make screenshots ARGS="dashboard queue"`) only those are taken.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from playwright.sync_api import Page

from tests.admin import scenery
from tests.admin.browser import Faults, Windows, chromium, log_in
from tests.admin.conftest import with_pages
from tests.server.support import key, serving

FOLDER = Path(__file__).parents[2] / "docs" / "images"
Scheme = Literal["light", "dark"]
SCHEMES: tuple[Scheme, ...] = ("light", "dark")

_DESK = (1280, 800)
_PHONE = (390, 844)
_OPERATOR = "ada"
_FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <include>/etc/fonts/fonts.conf</include>
  <match target="pattern">
    <test name="family"><string>sans-serif</string></test>
    <edit name="family" mode="prepend" binding="strong"><string>Inter</string></edit>
  </match>
</fontconfig>
"""
"""The same letters wherever a picture is taken. Chromium asks for `sans-serif` where a page says `system-ui`."""


@dataclass(frozen=True)
class Picture:
    name: str
    path: str
    size: tuple[int, int] = _DESK
    is_main: bool = False
    """Whether the README shows it."""

    def file(self, scheme: Scheme) -> Path:
        return FOLDER / f"{self.name}-{scheme}.png"


PICTURES = (
    Picture("dashboard", "/", is_main=True),
    Picture("queue", "/queue/emails/"),
    Picture("message", f"/queue/emails/messages/{scenery.MESSAGE}/details"),
    Picture("dead-letters", "/queue/emails-dlq/"),
    Picture("settings", "/queue/emails/settings"),
    Picture("config", "/config"),
    Picture("consumers", "/consumers"),
    Picture("streams", "/streams"),
    Picture("maintenance", "/sweeps"),
    Picture("actions", "/actions"),
    Picture("health", "/health"),
    Picture("login", "/login"),
    Picture("dashboard-phone", "/", _PHONE),
    Picture("queue-phone", "/queue/emails/", _PHONE),
)


def take(pictures: Sequence[Picture]) -> None:
    """Every picture that can be taken, and then what could not, or what a page complained of."""
    faults = Faults()
    FOLDER.mkdir(exist_ok=True)
    with _windows(faults) as (windows, url):
        for scheme in SCHEMES:
            stranger, operator = (windows.open(url, color_scheme=scheme) for _ in range(2))
            log_in(operator, f"rowq_{_OPERATOR}")
            for picture in pictures:
                _take(stranger if picture.path == "/login" else operator, picture, scheme)
        windows.close()
    faults.check()


def _take(page: Page, picture: Picture, scheme: Scheme) -> None:
    width, height = picture.size
    page.set_viewport_size({"width": width, "height": height})
    answer = page.goto(picture.path)
    if answer is not None and answer.ok:  # else it is among the faults
        page.screenshot(path=picture.file(scheme), animations="disabled", caret="hide")


@contextmanager
def _windows(faults: Faults) -> Iterator[tuple[Windows, str]]:
    with TemporaryDirectory() as folder:
        fonts = Path(folder, "fonts.conf")
        fonts.write_text(_FONTS, encoding="utf-8")
        scenery.build(f"sqlite:///{folder}/queue.db")
        with (
            serving(Path(folder), key(_OPERATOR, "admin")) as server,
            scenery.business(server.engine),
            chromium(FONTCONFIG_FILE=str(fonts)) as browser,
        ):
            yield Windows(lambda: browser, faults), with_pages(server).url


if __name__ == "__main__":
    known = {picture.name: picture for picture in PICTURES}
    if unknown := set(sys.argv[1:]) - set(known):
        sys.exit(f"there is no picture {', '.join(sorted(unknown))}; there are: {', '.join(known)}")
    take([known[name] for name in sys.argv[1:] or known])
