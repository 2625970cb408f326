"""Moved to `rowq.spark.ledger`; the old name works for one more release."""

import warnings
from typing import Any

from rowq.spark import ledger

warnings.warn("rowq.ledger has moved: import rowq.spark.ledger", DeprecationWarning, stacklevel=2)


def __getattr__(name: str) -> Any:
    return getattr(ledger, {"Held": "StreamClaim"}.get(name, name))
