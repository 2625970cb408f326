"""The compatible APIs, and which are served: all of them, unless the configuration says otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from rowq.errors import InvalidArgument
from rowq.server.compat.api import CompatApi
from rowq.server.compat.forq import api as forq
from rowq.server.compat.keyval import api as keyval
from rowq.server.compat.queueti import api as queueti
from rowq.server.sources import nearest

_MODULES: dict[str, Any] = {module.CompatApi.name: module for module in (forq, keyval, queueti)}
NAMES = tuple(_MODULES)
NONE = "none"


def chosen(text: str) -> tuple[str, ...]:
    """Reads names separated by commas; `none` selects none."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip() not in ("", NONE)))
    for name in names:
        if name not in _MODULES:
            raise InvalidArgument(f"there is no compatible API {name!r}{nearest(name, NAMES)}")
    return names


def to_options(name: str, table: Any, where: str) -> Any:
    """The options of one compatible API, from its table in the configuration."""
    kind = _MODULES[name].Options
    if isinstance(table, Mapping):
        for field in table:
            if field not in kind.__struct_fields__:
                raise InvalidArgument(f"{where} has an unknown entry {field!r}{nearest(field, kind.__struct_fields__)}")
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as error:
        raise InvalidArgument(f"{where} is invalid: {error}") from None


def open_apis(names: tuple[str, ...], options: Mapping[str, Any]) -> tuple[CompatApi, ...]:
    return tuple(_MODULES[name].CompatApi(options.get(name, _MODULES[name].Options())) for name in names)
