# Needs make and Python 3.11 or newer; everything else is set up in .venv on the first call.
#
#   make demo   diagnose the packaged loop here, then a recording made on a GPU
#   make test   the tests
#   make lint   ruff, mypy, import-linter
#   make bench  how fast the command line is, as a table

SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
CANDIDATES := $(PYTHON) python3.13 python3.12 python3.11 python3 python
WORKERS ?= 2

.PHONY: demo test lint bench setup

demo: $(READY)
	@$(BIN)/decodeprof demo

# One thread per worker: more fight for the same cores, and sums come out the same everywhere.
test: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) $(ARGS)

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY)
	$(BIN)/python -m tests.bench.speed

setup: $(READY)

$(READY): pyproject.toml
	@set -euo pipefail; \
	if [ ! -x $(BIN)/python ]; then \
	  for python in $(CANDIDATES); do \
	    if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	      found=$$python; break; \
	    fi; \
	  done; \
	  if [ -z "$${found:-}" ]; then \
	    echo "error: no Python 3.11 or newer was found" >&2; \
	    echo "hint: make $(MAKECMDGOALS) PYTHON=/path/to/python3.12" >&2; \
	    exit 1; \
	  fi; \
	  echo "setting up $(VENV) with $$($$found --version)" >&2; \
	  $$found -m venv $(VENV); \
	fi
	@$(BIN)/python -m pip install --quiet --editable ".[dev]"
	@touch $(READY)
