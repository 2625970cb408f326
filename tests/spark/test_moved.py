"""Names of the release before, which point to the new ones."""

from __future__ import annotations

import sys
from importlib import import_module

import pytest


@pytest.mark.parametrize("name", ["ledger", "pipeline"])
def test_a_module_that_has_moved_is_found_under_its_old_name(name: str) -> None:
    sys.modules.pop(f"rowq.{name}", None)
    with pytest.warns(DeprecationWarning, match=rf"rowq\.{name} has moved: import rowq\.spark\.{name}"):
        old = import_module(f"rowq.{name}")
    assert old.__all__ == import_module(f"rowq.spark.{name}").__all__
    assert all(getattr(old, public) for public in old.__all__)
