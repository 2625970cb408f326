"""A tale for a test to tell, and bend."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.trust.tale import Tale


@pytest.fixture
def tale() -> Iterator[Tale]:
    tale = Tale()
    with closing(tale.evidence):
        yield tale
