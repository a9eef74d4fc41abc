# Penstock: with git and Python 3.11, `make run` and `make test` set up everything they need.
.DEFAULT_GOAL := help
.PHONY: help setup run test lint unit integration browser faults bench format lock clean

PYTHON ?= $(shell command -v python3.11 || command -v python3)
UV_VERSION := 0.13.7
UV := .bootstrap/bin/uv
BIN := .venv/bin
SYNCED := .venv/.synced

SECONDS ?= 60
RATE ?= 5000
JSON ?=
ROUNDS ?= 1

export UV_PYTHON_DOWNLOADS := never

help: ## Show what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "  make run SECONDS=60 RATE=5000 JSON=out.json   how long, how many events a second, a report"

setup: $(SYNCED) ## Create the Python environment (the first run or test does it too)

run: $(SYNCED) ## Run the clickstream on embedded services, watch it, audit it
	@$(BIN)/penstock demo --seconds $(SECONDS) --rate $(RATE) $(if $(JSON),--json $(JSON))

test: lint unit integration ## Check and test everything (under 20 minutes)

lint: $(SYNCED) ## Check style, types and layering
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: $(SYNCED) ## Test what needs no services
	$(BIN)/pytest tests/unit -n 2

# Three at a time, each with services and a Spark of its own: most of a test is waiting.
integration: $(SYNCED) ## Test on real Kafka, Spark, ClickHouse, PostgreSQL and Chromium, and try a few of the faults
	@$(BIN)/python -m tests.chromium
	@$(BIN)/penstock prepare
	$(BIN)/pytest tests/faults tests/browser tests/integration -m "sample or not faults" -n 3 --dist worksteal

browser: $(SYNCED) ## Test the page alone
	@$(BIN)/python -m tests.chromium
	$(BIN)/pytest tests/browser

faults: $(SYNCED) ## Do every fault at ROUNDS moments to a running pipeline, and judge; see docs/faults.md
	$(BIN)/penstock faults --rounds $(ROUNDS) $(if $(JSON),--json $(JSON))
	$(BIN)/penstock faults --mutate
	FAULT_ROUNDS=$(ROUNDS) $(BIN)/pytest tests/faults/test_demo.py tests/integration -m faults

bench: $(SYNCED) ## Measure: throughput, stages, latency, what exactly once costs and how cost grows; see docs/bench.md
	$(BIN)/penstock bench drain
	$(BIN)/penstock bench stages
	$(BIN)/penstock bench latency
	$(BIN)/penstock bench doubling
	$(BIN)/penstock bench guarantees
	$(BIN)/penstock bench growth
	$(BIN)/penstock bench skew

format: $(SYNCED) ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock: $(UV) ## Resolve the dependencies anew into requirements.lock
	$(UV) pip compile --quiet --universal --upgrade --generate-hashes --no-header --group dev pyproject.toml -o requirements.lock

clean: ## Delete what runs and tests left behind
	rm -rf .penstock .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(UV):
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is missing: install it, e.g. apt-get install python3 python3-venv"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$(PYTHON) is older than 3.11: name a newer one with make PYTHON=..."; exit 1; }
	@$(PYTHON) -m venv .bootstrap || { rm -rf .bootstrap; echo "Python's venv module is missing: install it, e.g. apt-get install python3-venv"; exit 1; }
	@.bootstrap/bin/pip install --quiet --disable-pip-version-check uv==$(UV_VERSION) || { rm -rf .bootstrap; echo "uv cannot be installed: is there a network?"; exit 1; }

# The lock holds versions and hashes only, so that any package index will do.
$(SYNCED): requirements.lock pyproject.toml | $(UV)
	@echo "creating the Python environment in .venv ..."
	@test -x $(BIN)/python || $(UV) venv --quiet --python "$(PYTHON)" .venv
	@$(UV) pip sync --quiet --python $(BIN)/python --require-hashes requirements.lock
	@$(UV) pip install --quiet --python $(BIN)/python --no-deps --editable .
	@touch $(SYNCED)
