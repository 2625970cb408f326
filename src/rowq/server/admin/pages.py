"""The table of all pages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Struct
from starlette.responses import Response

from rowq.server.admin import dashboard, dead, events, login, message, operations, progress, queue, redrive, send, settings
from rowq.server.admin.request import AdminRequest
from rowq.server.http import asgi


class Page(Struct, frozen=True):
    """`is_open`: it needs no login."""

    method: str
    path: str
    handler: Handler | Streamer
    is_open: bool = False
    menu: str = ""
    """Its name in the menu; empty if it is not there."""
    of_the_whole: bool = False
    """It covers all queues: a key for some queues does not see it in the menu, and is refused."""
    streams: bool = False
    """An event stream: the handler also gets ASGI's receive and send, and answers by itself."""


_OPERATIONS = (
    Page("GET", "/events", events.stream_changes, streams=True),
    Page("GET", "/consumers", operations.show_consumers, menu="Consumers"),
    Page("GET", "/streams", operations.show_streams, menu="Streams", of_the_whole=True),
    Page("POST", "/streams/{stream}/revocation", operations.revoke_stream, of_the_whole=True),
    Page("GET", "/sweeps", operations.show_maintenance, menu="Maintenance", of_the_whole=True),
    Page("POST", "/sweeps/{sweep}", operations.run_maintenance, of_the_whole=True),
    Page("GET", "/actions", operations.show_actions, menu="Actions"),
    Page("GET", "/health", operations.show_health, menu="Health", of_the_whole=True),
)

_QUEUES = (
    Page("GET", "/queue/{queue}", queue.show_queue),
    Page("GET", "/queue/{queue}/", queue.show_queue),
    Page("GET", "/queue/{queue}/messages", queue.show_queue),
    Page("GET", "/queue/{queue}/messages/{id}/details", message.show_details),
    Page("GET", "/queue/{queue}/messages/{id}/payload", message.download),
    Page("POST", "/queue/{queue}/messages/{id}/removal", message.remove),
    Page("GET", "/queue/{queue}/send", send.show_form),
    Page("POST", "/queue/{queue}/send", send.send),
    Page("POST", "/queue/{queue}/pause", queue.pause),
    Page("POST", "/queue/{queue}/resumption", queue.resume),
    Page("GET", "/queue/{queue}/purge", queue.show_purge),
    Page("POST", "/queue/{queue}/purge", queue.purge),
    Page("POST", "/queue/{queue}/removal", queue.remove),
    Page("GET", "/queue/{queue}/settings", settings.show_settings),
    Page("POST", "/queue/{queue}/settings", settings.change_setting),
    Page("GET", "/config", settings.show_config, menu="Config"),
)

_DEAD = (
    Page("GET", "/dead", dead.show_all, menu="Dead letters"),
    Page("POST", "/queue/{queue}/dead/redrive", redrive.redrive),
    Page("POST", "/queue/{queue}/dead/removal", redrive.remove),
    Page("DELETE", "/queue/{queue}/messages", redrive.delete_all),
    Page("POST", "/queue/{queue}/messages/requeue", redrive.redrive_all),
    Page("DELETE", "/queue/{queue}/messages/{id}", redrive.delete_one),
    Page("POST", "/queue/{queue}/messages/requeue/{id}", redrive.redrive_one),
    Page("GET", "/queue/{queue}/messages/{id}/resend", send.show_resend),
    Page("POST", "/queue/{queue}/messages/{id}/resend", send.resend),
    Page("GET", "/jobs/{id}", progress.show_job),
    Page("POST", "/jobs/{id}/cancellation", progress.cancel_job),
)

PAGES: tuple[Page, ...] = (
    Page("GET", "/login", login.show_login, is_open=True),
    Page("POST", "/login", login.log_in, is_open=True),
    Page("POST", "/logout", login.log_out),
    Page("GET", "/", dashboard.show_dashboard, menu="Queues"),
    *_DEAD,
    *_OPERATIONS,
    *_QUEUES,
)


Handler = Callable[[AdminRequest], Awaitable[Response]]
Streamer = Callable[["AdminRequest", asgi.Receive, asgi.Send], Awaitable[None]]
