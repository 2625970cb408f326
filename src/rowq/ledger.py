"""Moved to `rowq.spark.ledger`; the old name works for one more release."""

import sys
import warnings

from rowq.spark import ledger

warnings.warn("rowq.ledger has moved: import rowq.spark.ledger", DeprecationWarning, stacklevel=2)
sys.modules[__name__] = ledger
