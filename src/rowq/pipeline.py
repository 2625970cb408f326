"""Moved to `rowq.spark.pipeline`; the old name works for one more release."""

import warnings
from typing import Any

from rowq.spark import pipeline

warnings.warn("rowq.pipeline has moved: import rowq.spark.pipeline", DeprecationWarning, stacklevel=2)


def __getattr__(name: str) -> Any:
    return getattr(pipeline, name)
