"""The pictures of the pages in docs/images are all there, small, and shown."""

from __future__ import annotations

import struct

import pytest

from tests.admin.screenshots import FOLDER, PICTURES, SCHEMES, Picture, Scheme
from tests.docs.page import ROOT

MOST_BYTES = 200_000
EACH = [pytest.param(picture, scheme, id=f"{picture.name}-{scheme}") for picture in PICTURES for scheme in SCHEMES]


@pytest.mark.parametrize(("picture", "scheme"), EACH)
def test_every_page_has_its_picture(picture: Picture, scheme: Scheme) -> None:
    file = picture.file(scheme)
    assert file.exists(), f"`make screenshots ARGS={picture.name}` takes it"
    data = file.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", data[16:24]) == picture.size
    assert len(data) <= MOST_BYTES, f"{len(data):,} bytes: everybody who clones the project gets them"


def test_no_picture_is_left_of_a_page_that_is_gone() -> None:
    assert {file.name for file in FOLDER.glob("*.png")} <= {picture.file(scheme).name for picture in PICTURES for scheme in SCHEMES}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("picture", [picture for picture in PICTURES if picture.is_main], ids=lambda picture: picture.name)
def test_the_readme_shows_the_main_ones(picture: Picture, scheme: Scheme) -> None:
    shown = picture.file(scheme).relative_to(ROOT).as_posix()
    assert shown in (ROOT / "README.md").read_text(encoding="utf-8"), f"show {shown}"
