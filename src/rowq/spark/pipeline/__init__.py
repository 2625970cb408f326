"""The data pipeline: an archive of history and audit, reports, replays. PySpark is imported when it is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rowq.spark.pipeline.archiving import archive
    from rowq.spark.pipeline.choice import Choice
    from rowq.spark.pipeline.compacting import compact
    from rowq.spark.pipeline.lake import read_lake
    from rowq.spark.pipeline.replaying import replay_archived, replay_dead
    from rowq.spark.pipeline.report import Source, reports, write_reports
    from rowq.spark.pipeline.vacuuming import vacuum

_HOMES = {
    "Choice": "choice",
    "Source": "report",
    "archive": "archiving",
    "compact": "compacting",
    "read_lake": "lake",
    "replay_archived": "replaying",
    "replay_dead": "replaying",
    "reports": "report",
    "vacuum": "vacuuming",
    "write_reports": "report",
}
__all__ = ["Choice", "Source", "archive", "compact", "read_lake", "replay_archived", "replay_dead", "reports", "vacuum", "write_reports"]


def __getattr__(name: str) -> Any:
    """Imported on first use: a vacuum of a lake needs no Arrow."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"rowq.spark.pipeline has no {name}; it has: {', '.join(__all__)}")
    return getattr(import_module(f"rowq.spark.pipeline.{_HOMES[name]}"), name)
