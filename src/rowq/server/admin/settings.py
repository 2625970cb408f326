"""The pages of settings: of one queue, edited in place, and of all in one table. A change takes effect at once."""

from __future__ import annotations

from typing import Any, NamedTuple

from starlette.responses import Response

from rowq.errors import InvalidArgument, QueueNotFound
from rowq.model.queue import SETTINGS, Origin, Policy, Setting, Settings, check_own_name, origins, resolve
from rowq.model.settings_text import parse_setting, write_setting
from rowq.server.admin.request import AdminRequest
from rowq.server.api import queues
from rowq.wire import SettingsBody, of_backoff, to_settings


class Row(NamedTuple):
    setting: Setting
    value: str
    """The effective value, in its text form."""
    origin: Origin
    default: str
    """The value without the queue's own setting."""


async def show_settings(request: AdminRequest) -> Response:
    return await _show(request, check_own_name(request.path["queue"]))


async def change_setting(request: AdminRequest) -> Response:
    """One at a time, so that concurrent changes of other settings are not undone."""
    queue, name = check_own_name(request.path["queue"]), request.given("name")
    request.identity.check("admin", queue)
    try:
        value = parse_setting(name, "" if request.given("default") else request.given("value"))
        await request.call(queues.configure, body=_body(name, value), queue=queue)
    except InvalidArgument as error:
        if name not in SETTINGS:
            raise
        return await _show(request, queue, wrong=name, problem=str(error).removeprefix(f"{name}: "))
    told = f"{name} is reset to the default." if value is None else f"{name} is now {write_setting(name, value)}."
    return request.go(f"/queue/{queue}/settings#{name}", told)


async def show_config(request: AdminRequest) -> Response:
    """All queues with their own settings, and the server's defaults."""
    found = await request.call(queues.list_settings)
    server = Settings(**to_settings(found.defaults))
    rows = [(each.queue, _own(Settings(**to_settings(each.settings)), server)) for each in found.queues]
    wanted = request.asked("q").strip().lower()
    return request.show(
        "settings/config.html",
        rows=[row for row in rows if wanted in row[0].lower()],
        count=len(rows),
        wanted=request.asked("q"),
        defaults=_rows(Settings(), server),
    )


async def _show(request: AdminRequest, queue: str, wrong: str = "", problem: str = "") -> Response:
    try:
        found = await request.call(queues.list_settings, query=queues.SettingsQuery(queue=queue))
        own = Settings(**to_settings(found.queues[0].settings))
        server = Settings(**to_settings(found.defaults))
        is_known = True
    except QueueNotFound:  # a queue can be configured before its first message
        server = Settings(**to_settings((await request.call(queues.list_settings)).defaults))
        own, is_known = Settings(), False
    groups: dict[str, list[Row]] = {}
    for row in _rows(own, server):
        groups.setdefault(row.setting.group, []).append(row)
    return request.show(
        "settings/queue.html",
        status=400 if problem else 200,
        queue=queue,
        is_known=is_known,
        paused=resolve(own, server).paused,
        groups=list(groups.items()),
        wrong=wrong,
        problem=problem,
        typed=request.given("value"),
    )


def _rows(own: Settings, server: Settings) -> list[Row]:
    holds, without, came_from = resolve(own, server), resolve(server), origins(own, server)
    return [Row(setting, _write(setting, holds), came_from[setting.field], _write(setting, without)) for setting in SETTINGS.values()]


def _own(own: Settings, server: Settings) -> list[Row]:
    return [row for row in _rows(own, server) if row.origin == "queue"]


def _write(setting: Setting, policy: Policy) -> str:
    return write_setting(setting.name, getattr(policy, setting.field))


def _body(name: str, value: Any) -> SettingsBody:
    """A change of one setting, as a request body of the API."""
    setting = SETTINGS[name]
    return SettingsBody(**{setting.wire: of_backoff(value) if setting.kind == "backoff" else value})
