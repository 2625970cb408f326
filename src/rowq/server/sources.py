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

from rowq.deprecation import renaming
from rowq.errors import InvalidArgument

_PREFIX = "ROWQ_"
_RENAMED = {"doors": "compat", "DOORS": "COMPAT"}
"""Names of the release before, accepted for one release."""
_OTHER_VARIABLES = ("API_KEY", "API_KEYS", "DEFAULTS", "CONFIG")
_OF_OTHERS = re.compile(r"HYPOTHESIS|TEST_\w+|SERVICE_(HOST|PORT).*|PORT_\d+_.*")
"""Variables of rowq's own tests, and those that Kubernetes sets in every container next to a service named rowq."""


class Given(Struct):
    """The values of one source, each with its place for error texts."""

    scalars: dict[str, tuple[str, Any]] = field(default_factory=dict)
    keys: list[tuple[str, Any]] = field(default_factory=list)
    secret: tuple[str, str] | None = None
    defaults: tuple[str, Any] | None = None
    compat: dict[str, tuple[str, Any]] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    """Warnings for the operator."""


def read_file(path: Path, scalars: tuple[str, ...], settings: tuple[str, ...], compat: tuple[str, ...] = ()) -> Given:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidArgument(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # invalid TOML, invalid UTF-8, or a number that is too long
        raise InvalidArgument(f"{path} is not valid TOML: {error}") from None
    remarks: list[str] = []
    document = _under_new_names(document, "[{}.…]", remarks, f" in {path}")
    _check_names(str(path), document, ("server", "compat"))
    server = _table(document.get("server", {}), f"{path}: server")
    server = _under_new_names(server, "server.{}", remarks, f" in {path}")
    _check_names(f"{path}: [server]", server, (*scalars, "keys", "defaults"))
    defaults = server.get("defaults")
    if defaults is not None:
        _check_names(f"{path}: [server.defaults]", _table(defaults, f"{path}: server.defaults"), settings)
    described = _table(document.get("compat", {}), f"{path}: compat")
    _check_names(f"{path}: [compat]", described, compat)
    keys = server.get("keys", [])
    if not isinstance(keys, list):
        raise InvalidArgument(f"{path}: server.keys must be an array of tables: write [[server.keys]] above each")
    return Given(
        scalars={name: (f"{path}: server.{name}", server[name]) for name in scalars if name in server},
        keys=[(f"{path}: entry {number} of server.keys", key) for number, key in enumerate(keys, 1)],
        defaults=None if defaults is None else (f"{path}: [server.defaults]", defaults),
        compat={name: (f"{path}: [compat.{name}]", table) for name, table in described.items()},
        remarks=remarks,
    )


def read_flags(flags: Mapping[str, Any]) -> Given:
    """The options of the command line, by the names of the fields."""
    remarks: list[str] = []
    named = _under_new_names(flags, "--{}", remarks)
    return Given({name: (f"--{name.replace('_', '-')}", value) for name, value in named.items()}, remarks=remarks)


def read_environment(environment: Mapping[str, str], scalars: tuple[str, ...]) -> Given:
    """Empty variables are ignored."""
    given = Given()
    known = {name.upper(): name for name in scalars}
    named = {variable.removeprefix(_PREFIX): text for variable, text in environment.items() if variable.startswith(_PREFIX) and text}
    for name, text in _under_new_names(named, _PREFIX + "{}", given.remarks).items():
        variable = _PREFIX + name
        if _is_of_others(name, text):
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


def _under_new_names(given: Mapping[str, Any], form: str, remarks: list[str], where: str = "") -> dict[str, Any]:
    """Replaces names of the release before, each with a remark; `form` is how the operator writes a name."""
    for old, new in _RENAMED.items():
        if old in given:
            before, now = form.format(old) + where, form.format(new)
            if new in given:
                raise InvalidArgument(f"{before} is the old name of {now}, which is there too: remove the old one")
            remarks.append(renaming(before, now))
    return {_RENAMED.get(name, name): value for name, value in given.items()}


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
