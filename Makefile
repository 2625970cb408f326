# Everything a contributor runs. The tools live in a virtual environment of their own; nothing is installed by hand.
#
#   make test ARGS="tests/contract -k stale"     what to run, and how
#   make test PYTHON=python3.12                  that Python, in an environment beside the usual one
#   make serve ARGS="--port 9000"                what `rowq serve` takes

PYTHON  ?=
PYTHONS := $(or $(PYTHON),python3.13 python3.12 python3.11 python3)
VENV    ?= .venv$(if $(PYTHON),-$(subst /,-,$(PYTHON)))
# Tests wait more than they compute: one worker more than there are cores.
WORKERS ?= $(shell expr $$(nproc 2>/dev/null || echo 2) + 1)
ARGS    ?=

BIN   := $(VENV)/bin
TREES := $(wildcard src tests benchmarks examples)

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help serve test check format bench screenshots clean tools

help: ## Say what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

test: $(VENV)/.has-dev tools ## Run every test, in parallel
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal $(ARGS)

check: $(VENV)/.has-dev ## Check format, lint, types and imports
	$(BIN)/ruff format --check $(TREES)
	$(BIN)/ruff check $(TREES)
	$(BIN)/mypy $(TREES)
	$(BIN)/lint-imports --no-logo --no-cache

format: $(VENV)/.has-dev ## Format the code, and mend what lint can mend itself
	$(BIN)/ruff check --fix-only $(TREES)
	$(BIN)/ruff format $(TREES)

bench: $(VENV)/.has-bench tools ## Measure rowq and its peers in one run
	$(BIN)/python -m benchmarks $(ARGS)

screenshots: $(VENV)/.has-dev ## Take the pictures of the admin pages anew
	@sh tests/support/tools.sh fonts
	$(BIN)/python -m tests.admin.screenshots $(ARGS)

serve: $(VENV)/.has-serve ## Serve the queues in rowq.db over HTTP
	$(BIN)/rowq serve $(ARGS)

clean: ## Remove all that was made, the environments too
	rm -rf .venv .venv-* build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find $(TREES) -name __pycache__ -type d -prune -exec rm -rf {} +

# Programs that some tests and benchmarks talk to. Where they cannot be had, these are skipped, and say so; with CI=true they fail.
tools:
	@sh tests/support/tools.sh

# A stamp for each extra: pip runs again when pyproject.toml is newer.
$(VENV)/.has-%: pyproject.toml | $(BIN)/python
	@echo "Installing rowq[$*] into $(VENV)"
	@$(BIN)/python -m pip install --quiet --quiet --editable '.[$*]'
	@touch $@

# The server needs no extra: what everybody gets is enough.
$(VENV)/.has-serve: pyproject.toml | $(BIN)/python
	@echo "Installing rowq into $(VENV)"
	@$(BIN)/python -m pip install --quiet --quiet --editable .
	@touch $@

# The newest Python that runs: a name on the PATH may be a shim with nothing behind it, or lack venv's own parts.
$(BIN)/python:
	@for python in $(PYTHONS); do \
	    if "$$python" -c 'import sys, ensurepip, sqlite3; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	        echo "Creating $(VENV) with $$("$$python" --version)"; \
	        exec "$$python" -m venv --clear $(VENV); \
	    fi; \
	done; \
	echo "rowq needs Python 3.11 or later, with venv and sqlite3, and found none (tried: $(PYTHONS))." >&2; \
	echo "Install one, or name one: make $(or $(firstword $(MAKECMDGOALS)),test) PYTHON=/path/to/python3" >&2; \
	exit 1
