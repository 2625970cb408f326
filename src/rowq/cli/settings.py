"""The settings of a queue as the command line takes and shows them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import rowq
from rowq.cli import value
from rowq.cli.output import Column, Output
from rowq.cli.text import shortened
from rowq.model.message import SettingsOptions
from rowq.model.settings_text import SETTINGS, parse_setting, write_setting


def read_pairs(pairs: list[str]) -> SettingsOptions:
    """`name=value` pairs as options of configure, durations in seconds. A schema may be a file, as `schema=@FILE`."""
    options: dict[str, Any] = {}
    for pair in pairs:
        name, equals, given = pair.partition("=")
        if not equals:
            raise rowq.InvalidArgument(f"{pair!r} is no setting: write name=value")
        if name == "schema" and given.startswith("@"):
            given = value.read_file(Path(given[1:])).decode(errors="surrogateescape")
        holds = parse_setting(name, given)
        options[name] = holds / 1000 if holds is not None and SETTINGS[name].kind == "duration" else holds
    return cast("SettingsOptions", options)


def show_settings(output: Output, queue: str, policy: rowq.Policy, origins: Mapping[str, str]) -> None:
    """Every setting, the value that holds and where it comes from; a backoff list also says how many attempts there are."""
    shown = {name: {"value": getattr(policy, name), "origin": origin} for name, origin in origins.items()}
    if output.json:
        output.document({"queue": queue, "settings": shown})
        return
    columns = (Column("setting", style="cyan"), Column("value", flexible=True), Column("from"))
    output.table(
        columns, ([name, _written(name, shown[each.field]["value"]), shown[each.field]["origin"]] for name, each in SETTINGS.items())
    )


def _written(name: str, given: Any) -> str:
    if given is None:
        return "none"
    if given == 0 and not isinstance(given, bool):
        return "0 (no limit)"
    return shortened(write_setting(name, given)) if isinstance(given, dict) else write_setting(name, given)
