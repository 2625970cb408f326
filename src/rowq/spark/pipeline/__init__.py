"""The data pipeline: an archive of history and audit, reports, replays. PySpark is imported when it is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rowq.spark.pipeline.archiving import archive
    from rowq.spark.pipeline.lake import read_lake
    from rowq.spark.pipeline.maintenance import compact, vacuum
    from rowq.spark.pipeline.replaying import Choice, replay_archived, replay_dead
    from rowq.spark.pipeline.report import Source, reports, write_reports

_HOMES = {
    "archiving": ("archive",),
    "lake": ("read_lake",),
    "maintenance": ("compact", "vacuum"),
    "replaying": ("Choice", "replay_archived", "replay_dead"),
    "report": ("Source", "reports", "write_reports"),
}
__all__ = ["Choice", "Source", "archive", "compact", "read_lake", "replay_archived", "replay_dead", "reports", "vacuum", "write_reports"]


def __getattr__(name: str) -> Any:
    """Imported on first use: a vacuum of a lake needs no Arrow."""
    from importlib import import_module

    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"rowq.spark.pipeline.{module}"), name)
    raise AttributeError(f"rowq.spark.pipeline has no {name}; it has: {', '.join(__all__)}")
