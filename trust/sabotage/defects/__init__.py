"""All deliberate defects, by what they touch."""

from __future__ import annotations

from trust.sabotage.defect import Defect
from trust.sabotage.defects import commits, hints, leases, operators, rivals, sending, server, streams, times, waiting, workers

DEFECTS: tuple[Defect, ...] = (
    *leases.DEFECTS,
    *times.DEFECTS,
    *rivals.DEFECTS,
    *hints.DEFECTS,
    *waiting.DEFECTS,
    *commits.DEFECTS,
    *sending.DEFECTS,
    *operators.DEFECTS,
    *server.DEFECTS,
    *streams.DEFECTS,
    *workers.DEFECTS,
)
