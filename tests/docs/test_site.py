"""`make docs` gives a site in which every document is found, every link leads somewhere, and nothing comes from the network."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.admin.browser import Faults, Windows, chromium
from tests.docs.page import ROOT, Page, pages


@dataclass
class Html(HTMLParser):
    """What matters of a page of the site."""

    path: str
    links: list[str] = field(default_factory=list)
    navigation: list[str] = field(default_factory=list)
    """The links of the menus."""
    loaded: list[str] = field(default_factory=list)
    """What a browser fetches by itself."""
    items: int = 0
    """How many items its lists have, menus left out."""

    def __post_init__(self) -> None:
        super().__init__()
        self._is_in_document = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self._is_in_document = (self._is_in_document or given.get("role") == "main") and tag != "footer"
        self.items += self._is_in_document and tag == "li"
        reference = given.get("href") or given.get("src") or given.get("srcset")
        if reference and tag == "a":
            self.links.append(reference)
            if {"nav-link", "dropdown-item"} & set(given.get("class", "").split()) and "rel" not in given:  # not: previous, next
                self.navigation.append(reference)
        elif reference:
            self.loaded.append(reference)

    def local(self, references: list[str]) -> Iterator[str]:
        """The files of the site that these lead to."""
        for url in map(urlsplit, references):
            if not url.scheme and not url.netloc and url.path:
                yield os.path.normpath(Path(self.path).parent / unquote(url.path))


@dataclass(frozen=True)
class Site:
    folder: Path
    pages: dict[str, Html]


def build(project: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """As `make docs` does, into another folder."""
    command = [sys.executable, "-m", "properdocs", "build", "--strict", "--config-file", "mkdocs.yml", "--site-dir", str(folder)]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    folder = tmp_path_factory.mktemp("site")
    done = build(ROOT, folder)
    assert done.returncode == 0, done.stderr
    read = {}
    for file in folder.rglob("*.html"):
        page = Html(file.relative_to(folder).as_posix())
        page.feed(file.read_text(encoding="utf-8"))
        if page.path != "404.html":  # its addresses begin at the top of a host
            read[page.path] = page
    return Site(folder, read)


def address(page: Page) -> str:
    return page.path.replace("README.md", "index.html").replace(".md", ".html")


def test_every_document_is_a_page_that_the_navigation_names_once(site: Site) -> None:
    expected = sorted(map(address, pages()))
    assert sorted(site.pages) == expected
    start = site.pages["index.html"]
    assert sorted(start.local(start.navigation)) == expected


def test_a_list_on_github_is_a_list_in_the_site(site: Site) -> None:
    written = {address(page): len(re.findall(r"^ *(?:-|\d+\.) ", page.prose, re.MULTILINE)) for page in pages()}
    assert sum(written.values()) > 500
    assert {path: page.items for path, page in site.pages.items()} == written, "put an empty line before a list"


def test_every_link_and_picture_is_a_file_of_the_site(site: Site) -> None:
    followed = [(page.path, found) for page in site.pages.values() for found in page.local([*page.links, *page.loaded])]
    assert len(followed) > 1_000
    assert not [dead for dead in followed if not (site.folder / dead[1]).is_file()]


def test_a_link_to_a_source_leads_to_the_repository(site: Site) -> None:
    assert "https://github.com/rowq/rowq/blob/main/examples/outbox.py" in site.pages["index.html"].links
    assert "https://github.com/rowq/rowq/tree/main/tests/contract" in site.pages["docs/promises.html"].links


def test_nothing_is_fetched_from_elsewhere(site: Site) -> None:
    assert not {url for page in site.pages.values() for url in page.loaded if urlsplit(url).netloc}
    assert not [file.name for file in site.folder.rglob("*.css") if "url(http" in file.read_text(encoding="utf-8")]


def test_a_browser_opens_it_from_the_disk_and_searches(site: Site) -> None:
    faults = Faults()
    asked: list[str] = []
    with chromium() as browser:
        windows = Windows(lambda: browser, faults)
        for scheme in ("light", "dark"):
            page = windows.open("about:blank", color_scheme=scheme, viewport={"width": 390, "height": 844})
            page.on("request", lambda request: asked.append(request.url))
            page.goto((site.folder / "index.html").as_uri())
            assert page.evaluate("document.documentElement.dataset.bsTheme") == scheme
            shown = [Path(picture).name for picture in page.evaluate("[...document.images].map(image => image.currentSrc)")]
            assert f"dashboard-{scheme}.png" in shown
        page.goto((site.folder / "docs/reference/settings.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") == 390, "a wide table scrolls by itself"
        page.keyboard.press("s")
        page.locator("#properdocs-search-query").press_sequentially("upgrading")
        page.locator("#properdocs-search-results").get_by_role("link", name="Upgrading", exact=True).first.click()
        page.wait_for_url("**/docs/guide/upgrading.html*")
        windows.close()
    assert asked and not [url for url in asked if not url.startswith("file:")]
    faults.check()


def test_what_leads_nowhere_and_what_is_not_in_the_index_fail_the_build(tmp_path: Path) -> None:
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    shutil.copytree(ROOT / "docs/site", tmp_path / "docs/site")
    (tmp_path / "LICENSE").touch()
    start, index = tmp_path / "README.md", tmp_path / "docs/README.md"
    start.write_text("# Start\n\n[here](#start) [all](docs/README.md#one--two) [a source](LICENSE)\n", encoding="utf-8")
    index.write_text("# Documents\n\n## One · two\n\n[Start](../README.md)\n", encoding="utf-8")
    assert build(tmp_path, tmp_path / "site").returncode == 0
    index.write_text("# Documents\n\n[gone](gone.md) [out](../../etc) [top](/) [source](../gone.py) [here](#nothing)\n", encoding="utf-8")
    (tmp_path / "docs/unnamed.md").write_text("# Unnamed\n", encoding="utf-8")
    done = build(tmp_path, tmp_path / "site")
    assert done.returncode == 1
    faults = [line for line in done.stderr.replace("\n  - ", " ").splitlines() if line.startswith("WARNING")]
    expected = ("'gone.md'", "'../../etc'", "'/'", "'../gone.py'", "#one--two", "#nothing", "docs/unnamed.md")
    assert len(faults) == len(expected), done.stderr
    assert not [word for word in expected if not any(word in fault for fault in faults)], done.stderr
