"""Links between the documents lead somewhere, and every document can be found."""

from __future__ import annotations

import os
from pathlib import PurePosixPath

import pytest

from tests.docs.page import ROOT, Page, page, pages

PAGES = pages()
START = "README.md"


def target(source: Page, link: str) -> tuple[str, str]:
    """(path from the root, anchor) of a link."""
    path, _, anchor = link.partition("#")
    if not path:
        return source.path, anchor
    return PurePosixPath(os.path.normpath(PurePosixPath(source.path).parent / path)).as_posix(), anchor


@pytest.mark.parametrize("source", PAGES, ids=lambda source: source.path)
def test_every_link_leads_somewhere(source: Page) -> None:
    for link in source.links:
        path, anchor = target(source, link)
        assert (ROOT / path).exists(), f"{source.path} links to {link}, and there is no {path}"
        assert not anchor or anchor in page(path).anchors, f"{source.path} links to {link}; headings there are {sorted(page(path).anchors)}"


def test_every_document_can_be_reached_from_the_readme() -> None:
    known = {each.path: each for each in PAGES}
    reached: set[str] = set()
    ahead = [START]
    while ahead:
        path = ahead.pop()
        if path in known and path not in reached:
            reached.add(path)
            ahead += [target(known[path], link)[0] for link in known[path].links]
    assert not set(known) - reached, "link them from a page that people find"
