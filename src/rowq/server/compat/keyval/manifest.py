"""The `queue:` section of plugin-keyval's `manifest.yaml`: how long a lock lasts, and how often expired ones are cleaned up."""

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
    """Other sections are ignored."""

    queue: Times | None = None


def read_manifest(path: str) -> Times:
    try:
        # Not msgspec.yaml: its C parser crashes the process on a deeply nested file.
        manifest = msgspec.convert(yaml.safe_load(Path(path).read_bytes()), _Manifest | None)
    except OSError as error:
        raise InvalidArgument(f"the manifest {path} cannot be read: {error.strerror}") from None
    except Exception as error:  # for an invalid date or number, YAML raises whatever Python raises
        raise InvalidArgument(f"the manifest {path} cannot be used: {error}") from None
    return (manifest and manifest.queue) or Times()
