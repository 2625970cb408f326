"""What holds for every test: how long Hypothesis searches, and that slowness alone is no failure (pytest-timeout guards that)."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("quick", deadline=None, print_blob=True)
settings.register_profile("thorough", deadline=None, print_blob=True, max_examples=2_000)
settings.load_profile(os.environ.get("ROWQ_HYPOTHESIS", "quick"))
