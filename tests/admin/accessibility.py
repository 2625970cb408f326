"""axe-core looks at a page: what somebody cannot use who has no mouse, sees little, or has it read aloud."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Page

_AXE = (Path(__file__).parent / "vendor" / "axe.min.js").read_text(encoding="utf-8")
_LOOK = "async rules => (await axe.run({resultTypes: ['violations'], ...rules && {runOnly: rules}})).violations"
_OF_COLOURS = ["color-contrast", "link-in-text-block"]
_GRAVE = ("serious", "critical")


def assert_accessible(page: Page) -> None:
    """As it stands now, in light and in dark, which differ in nothing but colours."""
    page.evaluate(_AXE)
    found = [*_complaints(page, "light"), *_complaints(page, "dark", _OF_COLOURS)]
    page.emulate_media(color_scheme="null")
    assert not found, "\n".join([f"axe found on {page.url}:", *found])


def _complaints(page: Page, scheme: Literal["light", "dark"], rules: list[str] | None = None) -> list[str]:
    page.emulate_media(color_scheme=scheme)
    return [_told(rule, node, scheme) for rule in page.evaluate(_LOOK, rules) if rule["impact"] in _GRAVE for node in rule["nodes"]]


def _told(rule: dict[str, Any], node: dict[str, Any], scheme: str) -> str:
    why = " ".join(node["failureSummary"].split())
    return f"{rule['impact']}: {rule['id']} ({rule['help']}), {scheme}\n  {node['target']}\n  {node['html']}\n  {why}"
