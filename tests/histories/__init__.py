"""Random histories: the verbs in any order, on a clock that only the test moves, against a model that fits on a page."""
