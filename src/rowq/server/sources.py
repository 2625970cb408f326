"""Sources of the configuration: `rowq.toml` and `ROWQ_…`. An unknown name is an error that suggests the nearest known one."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from rowq.errors import InvalidArgument

_PREFIX = "ROWQ_"
_OTHER_VARIABLES = ("API_KEY", "API_KEYS", "DEFAULTS", "CONFIG")
_OF_OTHERS = re.compile(r"HYPOTHESIS|TEST_\w+|SERVICE_(HOST|PORT).*|PORT_\d+_.*")
"""Variables of rowq's own tests, and those that Kubernetes sets in every container next to a service named rowq."""


class Given(Struct):
    """The values of one source, each with its place for error texts."""

    scalars: dict[str, tuple[str, Any]] = field(default_factory=dict)
    keys: list[tuple[str, Any]] = field(default_factory=list)
    secret: tuple[str, str] | None = None
    defaults: tuple[str, Any] | None = None
    doors: dict[str, tuple[str, Any]] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    """Warnings for the operator."""


def read_file(path: Path, scalars: tuple[str, ...], settings: tuple[str, ...], doors: tuple[str, ...] = ()) -> Given:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidArgument(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # invalid TOML, invalid UTF-8, or a number that is too long
        raise InvalidArgument(f"{path} is not valid TOML: {error}") from None
    _check_names(str(path), document, ("server", "doors"))
    server = _table(document.get("server", {}), f"{path}: server")
    _check_names(f"{path}: [server]", server, (*scalars, "keys", "defaults"))
    defaults = server.get("defaults")
    if defaults is not None:
        _check_names(f"{path}: [server.defaults]", _table(defaults, f"{path}: server.defaults"), settings)
    described = _table(document.get("doors", {}), f"{path}: doors")
    _check_names(f"{path}: [doors]", described, doors)
    keys = server.get("keys", [])
    if not isinstance(keys, list):
        raise InvalidArgument(f"{path}: server.keys must be an array of tables: write [[server.keys]] above each")
    return Given(
        scalars={name: (f"{path}: server.{name}", server[name]) for name in scalars if name in server},
        keys=[(f"{path}: entry {number} of server.keys", key) for number, key in enumerate(keys, 1)],
        defaults=None if defaults is None else (f"{path}: [server.defaults]", defaults),
        doors={name: (f"{path}: [doors.{name}]", table) for name, table in described.items()},
    )


def read_environment(environment: Mapping[str, str], scalars: tuple[str, ...]) -> Given:
    """Empty variables are ignored."""
    given = Given()
    known = {name.upper(): name for name in scalars}
    for variable, text in environment.items():
        name = variable.removeprefix(_PREFIX)
        if name == variable or not text or _is_of_others(name, text):
            continue
        if name in known:
            given.scalars[known[name]] = (variable, text)
        elif name == "API_KEY":
            given.secret = (variable, text)
        elif name == "API_KEYS":
            given.keys = [(f"key {number} of {variable}", key) for number, key in enumerate(_json(variable, text, list), 1)]
        elif name == "DEFAULTS":
            given.defaults = (variable, _json(variable, text, dict))
        elif name not in _OTHER_VARIABLES:
            raise InvalidArgument(
                f"the environment has an unknown {variable}{nearest(variable, [_PREFIX + each for each in (*known, *_OTHER_VARIABLES)])}"
            )
    return given


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of an error text about an unknown name."""
    choice = tuple(known)
    likely = difflib.get_close_matches(name, choice, 1)
    return f": did you mean {likely[0]}?" if likely else f"; known names: {', '.join(choice)}"


def _is_of_others(name: str, text: str) -> bool:
    return _OF_OTHERS.fullmatch(name) is not None or (name == "PORT" and text.startswith(("tcp://", "udp://")))


def _check_names(where: str, table: dict[str, Any], known: tuple[str, ...]) -> None:
    for name in table:
        if name not in known:
            raise InvalidArgument(f"{where} has an unknown entry {name!r}{nearest(name, known)}")


def _table(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidArgument(f"{where} must be a table, not {type(value).__name__}")
    return value


def _json(variable: str, text: str, kind: type) -> Any:
    """Error texts never contain the value: it may hold secrets."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InvalidArgument(f"{variable} is not valid JSON: {error}") from None
    if not isinstance(value, kind):
        raise InvalidArgument(f"{variable} must be a JSON {'list' if kind is list else 'object'}")
    return value
