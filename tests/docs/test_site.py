"""`make docs` gives a site in which every link leads somewhere, every document is found, and nothing comes from the network."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from docs.site.builder import Builder
from tests.admin.browser import Faults, Windows, chromium
from tests.docs.page import ROOT, pages


@dataclass
class Html(HTMLParser):
    """What matters of a page of the site."""

    path: str
    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    """What a browser fetches by itself."""
    contents: list[str] = field(default_factory=list)
    """The links of the navigation."""

    def __post_init__(self) -> None:
        super().__init__()
        self._is_in_contents = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids.add(given.get("id", ""))
        self._is_in_contents |= (tag, given.get("id")) == ("nav", "contents")
        reference = given.get("href") or given.get("src") or given.get("srcset")
        if reference and tag == "a":
            self.links.append(reference)
            self.contents += [reference] if self._is_in_contents else []
        elif reference and reference != "data:,":
            self.loaded.append(reference)

    def handle_endtag(self, tag: str) -> None:
        self._is_in_contents &= tag != "nav"

    def local(self, references: list[str]) -> Iterator[tuple[str, str]]:
        """(file of the site, anchor) of those that lead to one."""
        for url in map(urlsplit, references):
            if not url.scheme:
                yield os.path.normpath(Path(self.path).parent / unquote(url.path)) if url.path else self.path, url.fragment


@dataclass(frozen=True)
class Site:
    folder: Path
    builder: Builder
    pages: dict[str, Html]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    folder = tmp_path_factory.mktemp("site")
    builder = Builder(ROOT, folder)
    builder.run()
    read = {}
    for file in folder.rglob("*.html"):
        page = Html(file.relative_to(folder).as_posix())
        page.feed(file.read_text(encoding="utf-8"))
        read[page.path] = page
    return Site(folder, builder, read)


def test_nothing_is_wrong_with_it(site: Site) -> None:
    assert not site.builder.faults
    assert {page.path for page in pages()} <= {str(path) for path in site.builder.documents}


def test_every_link_leads_to_a_file_and_an_anchor_of_the_site(site: Site) -> None:
    followed = [(page, *link) for page in site.pages.values() for link in page.local([*page.links, *page.loaded])]
    assert len(followed) > 1_000
    dead = [f"{page.path}: {path}" for page, path, _ in followed if not (site.folder / path).is_file()]
    assert not dead
    lost = [f"{page.path}: {path}#{anchor}" for page, path, anchor in followed if anchor and anchor not in site.pages[path].ids]
    assert not lost


def test_every_document_is_found_by_the_navigation_alone(site: Site) -> None:
    reached: set[str] = set()
    ahead = ["index.html"]
    while ahead:
        if (path := ahead.pop()) not in reached:
            reached.add(path)
            ahead += [found for found, _ in site.pages[path].local(site.pages[path].contents)]
    built = {str(site.builder.address(path)) for path in site.builder.documents if path.parts[0] == "docs"}
    assert not built - reached, "name them in docs/README.md, or in the README.md of their folder"


def test_nothing_is_fetched_from_elsewhere(site: Site) -> None:
    assert not {url for page in site.pages.values() for url in page.loaded if urlsplit(url).scheme or urlsplit(url).netloc}
    assert not [file.name for file in site.folder.glob("*.css") if "url(" in file.read_text(encoding="utf-8")]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_opens_it_from_the_disk_and_searches(site: Site, scheme: str) -> None:
    faults = Faults()
    with chromium() as browser:
        windows = Windows(lambda: browser, faults)
        page = windows.open("about:blank", color_scheme=scheme, viewport={"width": 390, "height": 844})
        page.goto((site.folder / "docs/reference/settings.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        page.keyboard.press("/")
        page.keyboard.type("lease_expiry_backoff")
        page.locator("form li a", has_text="Settings").first.click()
        page.wait_for_url("**/docs/reference/settings.html#settings")
        page.goto((site.folder / "index.html").as_uri())
        shown = page.evaluate("[...document.images].map(image => image.currentSrc)")
        assert shown and all(f"-{scheme}." in picture for picture in shown if "-light." in picture or "-dark." in picture)
        windows.close()
    faults.check()


def test_a_link_that_leads_nowhere_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/README.md").write_text("# Documents\n\n[Start](../README.md) [gone](gone.md) [out](../../etc)\n", encoding="utf-8")
    (tmp_path / "README.md").write_text('# Start\n\n[here](#start) [lost](docs/README.md#lost) <img src="x.png">\n', encoding="utf-8")
    builder = Builder(tmp_path, tmp_path / "site")
    builder.run()
    assert len(builder.faults) == 4
    for word in ("gone.md", "../../etc", "#lost", "x.png"):
        assert any(word in fault for fault in builder.faults), word


def test_a_list_names_what_is_in_a_folder_and_a_source_is_shown_as_it_is(site: Site) -> None:
    listed = (site.folder / "tests/contract/index.html").read_text(encoding="utf-8")
    assert "test_attempts.py.html" in listed and "Attempts are counted when delivered, and limited." in listed
    assert "within" in (site.folder / "examples/outbox.py.html").read_text(encoding="utf-8")
