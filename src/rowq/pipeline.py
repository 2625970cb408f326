"""Moved to `rowq.spark.pipeline`; the old name works for one more release."""

import sys
import warnings

from rowq.spark import pipeline

warnings.warn("rowq.pipeline has moved: import rowq.spark.pipeline", DeprecationWarning, stacklevel=2)
sys.modules[__name__] = pipeline
