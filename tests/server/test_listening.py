"""As many connections as were promised, where the system lets us."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import pytest

from rowq.server.http.listening import allow_connections


@pytest.fixture
def limits() -> Iterator[tuple[int, int]]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield before
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_low_limit_is_raised(limits: tuple[int, int]) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (1_024, limits[1]))
    assert allow_connections(2_000) == 2_000
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= 2_000


def test_a_high_limit_is_left_alone(limits: tuple[int, int]) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (4_000, limits[1]))
    assert allow_connections(1_000) == 1_000
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 4_000


def test_what_the_system_does_not_allow_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    set_to: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (256, 512))
    monkeypatch.setattr(resource, "setrlimit", lambda kind, limit: set_to.append(limit))
    assert allow_connections(10_000) == 412
    assert set_to == [(512, 512)]
