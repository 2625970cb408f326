"""Every way into the server with every kind of key: who is let in, who is not, and that nothing happens for those who are not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from rowq.model.access import SCOPES
from tests.security.expected import Expected
from tests.security.world import TOLD, World, matched, ways, world

WAYS = ways()
CLOSED = {way: said for way, said in WAYS.items() if said.right is not None}
OPENED_BY: dict[str, set[str]] = {
    "send": {"send", "admin"},
    "receive": {"receive", "admin"},
    "look": {"receive", "admin"},
    "admin": {"admin"},
    "metrics": {"metrics", "admin"},
    "any": set(SCOPES),
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """For requests that change nothing, be it that they are refused."""
    with world(tmp_path_factory.mktemp("guarded")) as found:
        yield found


@pytest.mark.parametrize("way", CLOSED)
def test_no_route_admits_a_request_without_a_known_key(guarded: World, way: str) -> None:
    before = guarded.state()
    for secret in (None, "", "rowq_unknown", guarded.revoked, "*", "rowq_admin'--"):
        assert guarded.try_with(way, secret).status == 401, secret
    if way.startswith("GET"):
        assert guarded.try_with(way.replace("GET", "HEAD"), None).status in (401, 405)
    assert guarded.state() == before


@pytest.mark.parametrize("way", CLOSED)
def test_a_key_of_another_scope_opens_nothing(guarded: World, way: str) -> None:
    before = guarded.state()
    for scope in sorted(set(SCOPES) - OPENED_BY[str(CLOSED[way].right)]):
        for name in (scope, f"{scope}-of-it"):
            told = guarded.try_with(way, f"rowq_{name}")
            assert told.status == 403, (name, told)
            assert not [word for word in TOLD if word in told.text], told
    assert guarded.state() == before


@pytest.mark.parametrize("way", CLOSED)
def test_a_key_for_other_queues_reads_nothing_and_changes_nothing(guarded: World, way: str) -> None:
    before, said = guarded.state(), CLOSED[way]
    told = guarded.try_with(way, "rowq_elsewhere")
    assert told.is_refused == (said.reach in ("queue", "whole")), told
    assert told.status < 500 and not _given_away(told.text, way, guarded), told
    assert guarded.state() == before


@pytest.mark.parametrize("way", WAYS)
def test_the_right_key_opens_it(guarded: World, tmp_path: Path, way: str) -> None:
    """What only looks leaves the world as it is for others."""
    said = WAYS[way]
    with nullcontext(guarded) if way.startswith("GET") and said.right != "receive" else world(tmp_path) as found:
        for scope in sorted(OPENED_BY[str(said.right)]) if said.right else [""]:
            told = found.try_with(way, f"rowq_{scope}" if scope else None)
            assert not told.is_refused and told.status < (400 if scope == "admin" else 500), (scope, told)
            is_enough = said.reach != "whole"
            limited = found.try_with(way, f"rowq_{scope}-of-it" if scope else None)
            assert limited.is_refused != is_enough and limited.status < 500, (scope, limited)


def test_a_route_without_an_expectation_is_noticed() -> None:
    table = {"GET /here": Expected("admin", "whole")}
    assert matched(["GET /here"], table) == table
    with pytest.raises(AssertionError, match="GET /new"):
        matched(["GET /here", "GET /new"], table)
    with pytest.raises(AssertionError, match="GET /here"):
        matched([], table)


def _given_away(text: str, way: str, world: World) -> list[str]:
    """Secrets in an answer. What was asked for by name may be named again in the refusal."""
    named = {word for word in TOLD if word in way.format(queue=TOLD[0], topic=TOLD[0], stream=TOLD[3], id="", **_OTHERS)}
    if text.startswith("{") and '"error"' in text:
        named.add(TOLD[0])  # an API's queue stands in the body, or in its configuration
    return [word for word in TOLD if word in text and word not in named]


_OTHERS = {"consumer_id": "", "name": "", "sweep": ""}
