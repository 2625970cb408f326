"""The `queue:` part of a `manifest.yaml`, as plugin-keyval has it: how long a lock lasts, and how often old ones are cleaned up."""

from __future__ import annotations

from pathlib import Path

import msgspec
import yaml
from msgspec import Struct

from rowq.errors import InvalidArgument
from rowq.model.retry import Millis, PositiveMillis


class Times(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """In milliseconds."""

    lock_duration: PositiveMillis | None = None
    cleanup_interval: Millis | None = None


class _Manifest(Struct, frozen=True):
    """The rest of it is about other things."""

    queue: Times | None = None


def read_manifest(path: str) -> Times:
    try:
        # Not msgspec.yaml: its C parser ends the process where a file is nested too deeply.
        manifest = msgspec.convert(yaml.safe_load(Path(path).read_bytes()), _Manifest | None)
    except OSError as error:
        raise InvalidArgument(f"the manifest {path} cannot be read: {error.strerror}") from None
    except Exception as error:  # of an impossible date or number YAML raises whatever Python does
        raise InvalidArgument(f"the manifest {path} cannot be used: {error}") from None
    return (manifest and manifest.queue) or Times()
