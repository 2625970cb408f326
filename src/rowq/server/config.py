"""The server's configuration: from flags, the environment and `rowq.toml`, in this order of precedence."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from rowq.errors import InvalidArgument
from rowq.model.access import ALL_QUEUES, SCOPES, KnownKey, digest_of, to_key
from rowq.model.queue import Settings, change
from rowq.server.auth.loopback import is_loopback
from rowq.server.compat import registry
from rowq.server.compat.forq.environment import read_forq
from rowq.server.logs import redact
from rowq.server.sources import Given, nearest, read_environment, read_file, read_flags
from rowq.store.policy import check_schema
from rowq.wire import SettingsBody, to_settings

FILE = "rowq.toml"
DEFAULT_URL = "sqlite:///rowq.db"
KEY_OF_ENVIRONMENT = "env"

Seconds = Annotated[float, Meta(gt=0, le=86_400)]
Bytes = Annotated[int, Meta(ge=1_024, le=1 << 30)]


class Config(Struct, frozen=True, kw_only=True):
    """All options, with their defaults."""

    url: str = DEFAULT_URL
    redis: str | None = None
    host: Annotated[str, Meta(min_length=1, max_length=255)] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65_535)] = 8080
    admin: bool = True
    """Whether to serve the admin pages."""
    admin_host: Annotated[str, Meta(min_length=1, max_length=255)] = "127.0.0.1"
    admin_port: Annotated[int, Meta(ge=0, le=65_535)] | None = None
    """None: the API's port plus one."""
    workers: Annotated[int, Meta(ge=1, le=256)] = 1
    http2: bool = False
    tls_cert: str | None = None
    tls_key: str | None = None
    max_body_bytes: Bytes = 16 << 20
    max_header_bytes: Bytes = 32 << 10
    header_timeout: Seconds = 10.0
    body_timeout: Seconds = 30.0
    idle_timeout: Seconds = 75.0
    max_connections: Annotated[int, Meta(ge=1, le=1_000_000)] = 10_000
    backlog: Annotated[int, Meta(ge=1, le=65_535)] = 2_048
    stop_timeout: Seconds = 30.0
    log_format: Literal["text", "json"] = "text"
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    access_log: bool = False
    otel: bool = False
    metrics: bool = True
    compat: str = ",".join(registry.NAMES)
    """The compatible APIs to serve, separated by commas; `none` for none."""
    compat_options: dict[str, Any] = {}
    """The options of each compatible API, validated."""
    remarks: tuple[str, ...] = ()
    """Warnings about the configuration, for the log."""
    keys: tuple[KnownKey, ...] = ()
    """Each with the digest of its secret; the secret itself is not stored."""
    defaults: Settings = Settings()

    @property
    def exposed(self) -> str | None:
        """The host that other machines can reach, if there is one."""
        hosts = (self.host, self.admin_host) if self.admin else (self.host,)
        return next((host for host in hosts if not is_loopback(host)), None)

    @property
    def page_port(self) -> int:
        if self.admin_port is not None:
            return self.admin_port
        return min(self.port + 1, 65_535) if self.port else 0


class _Key(Struct, forbid_unknown_fields=True):
    """A key as written in a file or a variable."""

    name: str
    scopes: list[str]
    queues: list[str] = msgspec.field(default_factory=lambda: list(ALL_QUEUES))
    secret: str | None = None
    secret_sha256: str | None = None


SCALARS = tuple(name for name in Config.__struct_fields__ if name not in ("keys", "defaults", "compat_options", "remarks"))
_TYPES = {field.name: field.type for field in msgspec.structs.fields(Config)}


def load(flags: Mapping[str, Any], environment: Mapping[str, str], *, file: Path | None = None, folder: Path | None = None) -> Config:
    """`file` must exist; without one, `rowq.toml` of the folder is read if it exists. Raises InvalidArgument."""
    named = file or (Path(environment["ROWQ_CONFIG"]) if environment.get("ROWQ_CONFIG") else None)
    default = (folder or Path()) / FILE
    path = named or (default if default.is_file() else None)
    in_file = Given() if path is None else read_file(path, SCALARS, SettingsBody.__struct_fields__, registry.NAMES)
    of_forq, in_environment = read_forq(environment), read_environment(environment, SCALARS)
    chosen: dict[str, Any] = {}
    sources = (in_file, of_forq, in_environment, read_flags(flags))
    for given in sources:
        for name, (where, value) in given.scalars.items():
            chosen[name] = _converted(name, value, where, strict=given is in_file)
    keys = {key.name: (key, digest) for given in (in_file, of_forq, in_environment) for key, digest in _keys(given)}
    config = Config(
        **chosen,
        compat_options=_compat_options(in_file, of_forq),
        remarks=(*(remark for given in sources for remark in given.remarks), *_shown_to_all(flags)),
        keys=tuple(keys.values()),
        defaults=_defaults(in_environment.defaults or in_file.defaults),
    )
    _check_together(config)
    return config


def check_exposed(host: str | None, url: str, *, has_keys: bool) -> None:
    """Any client that reaches the server could read and delete everything, so without a key only this machine may connect."""
    if host is not None and not has_keys:
        raise InvalidArgument(
            f"without a key the server only listens on this machine, not on {host}: create one with `{making_a_key(url)}`, "
            "set ROWQ_API_KEY, or leave --host and --admin-host at 127.0.0.1"
        )


def making_a_key(url: str) -> str:
    """The command that creates a key, with `--url` if it would not find the database by default. `url` has no password in it."""
    looks_there = url == redact(os.environ.get("ROWQ_URL") or DEFAULT_URL)
    return "rowq keys create NAME --scope admin" + ("" if looks_there else f" --url {url}")


def _shown_to_all(flags: Mapping[str, Any]) -> list[str]:
    """Warnings about passwords on the command line: the process list shows them."""
    return [
        f"--{name} has a password, which every user of this machine can read in the process list: set ROWQ_{name.upper()} instead"
        for name in ("url", "redis")
        if (given := flags.get(name)) and redact(given) != given
    ]


def _converted(name: str, value: Any, where: str, *, strict: bool) -> Any:
    """In a file, 8080 and "8080" differ; a variable is always text."""
    try:
        return msgspec.convert(value, _TYPES[name], strict=strict)
    except (msgspec.ValidationError, UnicodeError) as error:
        shown = "" if name in ("url", "redis") else f", but the value is {value!r}"
        raise InvalidArgument(f"{where} is invalid: {error}{shown}") from None


def _compat_options(*sources: Given) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for given in sources:
        for name, (where, table) in given.compat.items():
            said = msgspec.structs.asdict(options[name]) | table if name in options else table
            options[name] = registry.to_options(name, said, where)
    return options


def _check_together(config: Config) -> None:
    registry.chosen(config.compat)
    if config.tls_key is not None and config.tls_cert is None:
        raise InvalidArgument("tls_key is set without tls_cert: set the certificate too")
    for what in ("tls_cert", "tls_key"):
        path = getattr(config, what)
        if path is not None and not Path(path).is_file():
            raise InvalidArgument(f"{what} names {path!r}, but there is no such file")
    scheme = config.url.partition("://")[0].lower()
    if scheme in ("http", "https"):
        raise InvalidArgument(
            f"the URL to serve names a server, perhaps from ROWQ_URL, which clients use too: name a database, such as --url {DEFAULT_URL}"
        )
    if config.workers > 1 and scheme == "sqlite":
        raise InvalidArgument(
            f"workers={config.workers} would be slower on SQLite, which lets one process write at a time: leave it at 1; "
            "requests that arrive together are committed together"
        )
    if config.workers > 1 and not hasattr(os, "fork"):
        raise InvalidArgument(f"workers={config.workers} needs fork, which this system does not have: leave it at 1")
    digests = [digest for _, digest in config.keys]
    if len(set(digests)) < len(digests):
        raise InvalidArgument("two keys have the same secret, so they cannot be told apart: give each its own")


def _keys(given: Given) -> list[KnownKey]:
    keys = [_key(where, entry) for where, entry in given.keys]
    names = [key.name for key, _ in keys]
    for name in names:
        if names.count(name) > 1:
            raise InvalidArgument(f"two keys are named {name!r}: give each its own name")
    if given.secret is not None:
        where, secret = given.secret
        keys.append((to_key(KEY_OF_ENVIRONMENT, SCOPES, ALL_QUEUES, 0), _digest(secret, None, where)))
    return keys


def _key(where: str, entry: Any) -> KnownKey:
    if isinstance(entry, dict):
        for field in entry:
            if field not in _Key.__struct_fields__:
                raise InvalidArgument(f"{where} has an unknown entry {field!r}{nearest(field, _Key.__struct_fields__)}")
    try:
        key = msgspec.convert(entry, _Key)
    except msgspec.ValidationError as error:
        raise InvalidArgument(f"{where} is invalid: {error}") from None
    try:
        return to_key(key.name, key.scopes, key.queues, 0), _digest(key.secret, key.secret_sha256, f"the key {key.name!r}")
    except InvalidArgument as error:
        raise InvalidArgument(f"{where}: {error}") from None


def _digest(secret: str | None, sha256: str | None, where: str) -> bytes:
    """Error texts never contain the secret."""
    if (secret is None) == (sha256 is None):
        raise InvalidArgument(f"{where} takes either secret or secret_sha256")
    if secret is not None:
        if not secret or not secret.isprintable() or " " in secret:
            raise InvalidArgument(f"the secret of {where} must be visible characters without spaces, as `rowq keys create` generates")
        return digest_of(secret)
    try:
        digest = bytes.fromhex(sha256 or "")
    except ValueError:
        digest = b""
    if len(digest) != 32:
        raise InvalidArgument(f"secret_sha256 of {where} must be 64 hexadecimal digits: printf %s SECRET | sha256sum")
    return digest


def _defaults(given: tuple[str, Any] | None) -> Settings:
    if given is None:
        return Settings()
    where, values = given
    try:
        settings = change(Settings(), **to_settings(msgspec.convert(values, SettingsBody)))
        check_schema(settings.schema)
        return settings
    except (msgspec.ValidationError, InvalidArgument) as error:
        raise InvalidArgument(f"{where} is invalid: {error}") from None
