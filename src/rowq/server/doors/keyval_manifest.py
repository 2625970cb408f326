"""The `queue:` part of a `manifest.yaml`, as plugin-keyval has it: how long a lock lasts, and how often old ones are cleaned up."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct

from rowq.errors import InvalidArgument
from rowq.model.queue import Lease
from rowq.model.retry import Millis


class Times(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """In milliseconds."""

    lock_duration: Lease | None = None
    cleanup_interval: Millis | None = None


class _Manifest(Struct, frozen=True):
    """The rest of it is about other things."""

    queue: Times | None = None


def read_manifest(path: str) -> Times:
    try:
        manifest = msgspec.yaml.decode(Path(path).read_bytes(), type=_Manifest | None)
    except OSError as error:
        raise InvalidArgument(f"the manifest {path} cannot be read: {error.strerror}") from None
    except msgspec.MsgspecError as error:
        raise InvalidArgument(f"the manifest {path} cannot be used: {error}") from None
    return (manifest and manifest.queue) or Times()
