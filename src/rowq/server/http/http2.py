"""HTTP/2, negotiated in the TLS handshake or by prior knowledge: one connection with its streams, on top of h2."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from h2 import events
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.exceptions import H2Error, StreamClosedError
from h2.settings import SettingCodes, Settings
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.utils import get_local_addr, get_remote_addr, is_ssl
from uvicorn.server import ServerState

from rowq.server.http.http2_stream import Application, Stream, read_request

__all__ = ["MAX_STREAMS", "NUISANCES", "Http2Protocol"]

MAX_STREAMS = 100
STREAM_WINDOW = 256 * 1024
CONNECTION_WINDOW = 1024 * 1024
"""Bytes of unread bodies that a connection may hold."""

NUISANCES = 500
NUISANCES_PER_SECOND = 33
"""Resets, pings, settings, empty and unknown frames are cheap to send and expensive to serve: a burst of this many, then a rate."""

_BITE = 16 * 1024  # bytes given to h2 at once, so that a flood of small frames is noticed early
_HEADER_TABLE = 4096

_log = logging.getLogger("uvicorn.error")


class Connection(H2Connection):
    """h2 takes a GOAWAY, sent or received, as the end of the connection. It only means that no new stream begins: open ones continue."""

    def __init__(self, max_header_bytes: int) -> None:
        # Answer headers are checked where they are created, at a lower cost.
        super().__init__(H2Configuration(client_side=False, validate_outbound_headers=False, normalize_outbound_headers=False))
        settings = {
            SettingCodes.MAX_CONCURRENT_STREAMS: MAX_STREAMS,
            SettingCodes.MAX_HEADER_LIST_SIZE: max_header_bytes,
            SettingCodes.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
        }
        self.local_settings = Settings(client=False, initial_values=settings)
        # Up to here a request is answered with 431; beyond, h2 stops in the middle of the headers, which ends the connection.
        self.decoder.max_header_list_size = 4 * max_header_bytes
        self.initiate_connection()
        self.increment_flow_control_window(CONNECTION_WINDOW - self.inbound_flow_control_window)
        # h2 would end the connection for one stream too many. That stream is refused instead, and the client may retry it.
        self.local_settings.max_concurrent_streams = 2**31 - 1
        self.local_settings.acknowledge()

    def go_away(self) -> None:
        state = self.state_machine.state
        self.close_connection(ErrorCodes.NO_ERROR)
        self.state_machine.state = state

    def clear_outbound_data_buffer(self) -> None:
        """Does nothing: h2 calls this at a client's GOAWAY, and would lose the output of open streams."""

    def _receive_goaway_frame(self, frame: Any) -> Any:
        state = self.state_machine.state
        answer = super()._receive_goaway_frame(frame)
        self.state_machine.state = state
        return answer


class Http2Protocol(asyncio.Protocol):
    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        loop: asyncio.AbstractEventLoop,
        *,
        max_header_bytes: int,
        header_timeout: float,
        hang_up: Callable[[asyncio.Transport, asyncio.AbstractEventLoop], None],
    ) -> None:
        self.config = config
        self.app_state = app_state
        self.loop = loop
        self.server_state = server_state
        self.connections: set[Any] = server_state.connections
        self.streams: dict[int, Stream] = {}  # until the application is done with them, possibly after the client
        self.h2 = Connection(max_header_bytes)
        self.transport: asyncio.Transport
        self.flow: FlowControl

        self._max_header_bytes = max_header_bytes
        self._hang_up = hang_up
        self._open = 0
        self._draining = False
        self._parting = False
        self._patience = header_timeout  # for the first request; then the idle timeout
        self._idle_since = loop.time()
        self._timer: asyncio.TimerHandle
        self._nuisances_left = float(NUISANCES)
        self._nuisance_at = loop.time()
        self._handlers: dict[type[events.Event], Callable[[Any], None]] = {
            events.RequestReceived: self._on_request,
            events.DataReceived: self._on_data,
            events.StreamEnded: self._on_end,
            events.StreamReset: self._on_reset,
            events.WindowUpdated: self._on_window,
            events.RemoteSettingsChanged: self._on_settings,
            events.PingReceived: self._on_nuisance,
            events.UnknownFrameReceived: self._on_nuisance,
            events.ConnectionTerminated: self._on_goaway,
        }

    # Called by the transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        self.connections.add(self)
        self.transport = transport
        self.flow = FlowControl(transport)
        self._setting = {
            "asgi": {"version": self.config.asgi_version, "spec_version": "2.3"},
            "server": get_local_addr(transport),
            "client": get_remote_addr(transport),
            "scheme": "https" if is_ssl(transport) else "http",
        }
        self._timer = self.loop.call_later(min(self._patience, self.config.timeout_keep_alive), self._look_whether_idle)
        self._flush()

    def connection_lost(self, _exc: Exception | None) -> None:
        self.connections.discard(self)
        self._timer.cancel()
        self._parting = True
        self._lose_streams()
        self.flow.resume_writing()

    def data_received(self, data: bytes) -> None:
        for start in range(0, len(data), _BITE):
            if self._parting:
                return
            try:
                happened = self.h2.receive_data(data[start : start + _BITE])
            except H2Error as error:
                _log.debug("HTTP/2 connection ended: %s", error)
                self._part()
                return
            for event in happened:
                handler = self._handlers.get(type(event))
                if handler is not None and not self._parting:
                    handler(event)
            self._flush()

    def pause_writing(self) -> None:
        # Otherwise a client that sends pings and reads nothing would grow the write buffer without bound.
        self.flow.pause_writing()
        self.flow.pause_reading()

    def resume_writing(self) -> None:
        self.flow.resume_writing()
        self.flow.resume_reading()

    # Called by uvicorn

    def shutdown(self) -> None:
        if not self._draining and not self._parting:
            self._draining = True
            self.h2.go_away()
            self._flush()
        if not self.streams:
            self._part()

    # Events from the client

    def _on_request(self, event: events.RequestReceived) -> None:
        if self._draining or self._open >= MAX_STREAMS or len(self.streams) >= 2 * MAX_STREAMS:
            with suppress(StreamClosedError):
                self.h2.reset_stream(event.stream_id, ErrorCodes.REFUSED_STREAM)
            return
        if event.stream_id not in self.h2.streams or self.h2.streams[event.stream_id].closed:
            return  # reset in the same read that opened it
        scope, fault = read_request(event.headers, self._max_header_bytes)
        self._begin(event.stream_id, scope | self._setting, fault or self.config.loaded_app)

    def _begin(self, id: int, scope: dict[str, Any], app: Application) -> None:
        root = self.config.root_path
        if root:
            scope |= {"path": root + scope["path"], "raw_path": root.encode() + scope["raw_path"]}
        scope |= {"root_path": root, "state": self.app_state.copy()}
        stream = Stream(id, scope, self.h2, self.server_state, self.flow, self._flush, self._on_stream_closed)
        self.streams[id] = stream
        self._open += 1
        self._patience = self.config.timeout_keep_alive
        task = self.loop.create_task(stream.run(app))
        self.server_state.tasks.add(task)
        task.add_done_callback(lambda done: self._on_done(id, done))

    def _on_data(self, event: events.DataReceived) -> None:
        if not event.data and event.stream_ended is None:
            self._on_nuisance(event)
        stream = self.streams.get(event.stream_id)
        if stream is None or stream.closed:
            self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        else:
            stream.body_came(event.data, event.flow_controlled_length)

    def _on_end(self, event: events.StreamEnded) -> None:
        if event.stream_id in self.streams:
            self.streams[event.stream_id].request_ended()

    def _on_reset(self, event: events.StreamReset) -> None:
        if event.stream_id in self.streams:
            self.streams[event.stream_id].lose()
        self._on_nuisance(event)

    def _on_window(self, event: events.WindowUpdated) -> None:
        if event.stream_id == 0:
            for stream in self.streams.values():
                stream.window_opened()
        elif event.stream_id in self.streams:
            self.streams[event.stream_id].window_opened()

    def _on_settings(self, event: events.RemoteSettingsChanged) -> None:
        # The client sets how large the encoder's table may grow, up to four gigabytes.
        self.h2.encoder.header_table_size = min(self.h2.encoder.header_table_size, _HEADER_TABLE)
        for stream in self.streams.values():
            stream.window_opened()
        self._on_nuisance(event)

    def _on_goaway(self, event: events.ConnectionTerminated) -> None:
        self._draining = True
        if event.error_code != ErrorCodes.NO_ERROR or not self.streams:
            self._part()

    def _on_nuisance(self, _event: events.Event) -> None:
        now = self.loop.time()
        earned = (now - self._nuisance_at) * NUISANCES_PER_SECOND
        self._nuisances_left = min(self._nuisances_left + earned, NUISANCES) - 1
        self._nuisance_at = now
        if self._nuisances_left < 0 and not self._parting:
            self.h2.close_connection(ErrorCodes.ENHANCE_YOUR_CALM)
            self._part()

    # The end of streams and connections

    def _on_stream_closed(self) -> None:
        self._open -= 1

    def _on_done(self, id: int, task: asyncio.Task[None]) -> None:
        self.server_state.tasks.discard(task)
        del self.streams[id]
        if not self.streams:
            self._idle_since = self.loop.time()
            if self._draining:
                self._part()

    def _look_whether_idle(self) -> None:
        left = self._patience if self.streams else self._idle_since + self._patience - self.loop.time()
        if left > 0:
            self._timer = self.loop.call_later(left, self._look_whether_idle)
        else:
            self.shutdown()

    def _part(self) -> None:
        if not self._parting:
            self._flush()
            self._parting = True
            self._timer.cancel()
            self._lose_streams()
            self.flow.resume_writing()
            self.flow.resume_reading()
            self._hang_up(self.transport, self.loop)

    def _lose_streams(self) -> None:
        for stream in self.streams.values():
            stream.lose()

    def _flush(self) -> None:
        data = self.h2.data_to_send()
        if data and not self._parting and not self.transport.is_closing():
            self.transport.write(data)
