# The first run sets everything up in .venv; later runs notice that nothing has changed and start at once.
SHELL := /bin/sh
PYTHON ?= python3
BIN := .venv/bin

# What these files pin, .venv holds: .venv/ready keeps their checksum.
PINS := requirements.txt pyproject.toml tidegate_local/toolchain.py tidegate_local/emr/sharing.py

# uv would trust its own list of authorities only, which a company's proxy is not on.
export UV_SYSTEM_CERTS := 1

.DEFAULT_GOAL := help
.PHONY: help demo test test-all lint format lock bundle sim faults sim-all model replay evidence bench chaos mutants clean setup

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

demo: setup ## Run the whole path on this machine, duplicates, deletions and garbage included
	@$(BIN)/tidegate local demo

# Hundreds of processes of one run import the same modules: what Python compiles of them is kept, whatever the shell says.
test: export PYTHONDONTWRITEBYTECODE :=
test: lint ## Lint, then run the tests that a contributor waits for
	$(BIN)/pytest tests --numprocesses=auto -m "not long"

test-all: export PYTHONDONTWRITEBYTECODE :=
test-all: setup ## Run all other tests: chaos, benches, the browser, all of Spark and of the simulation (half an hour)
	$(BIN)/pytest tests --numprocesses=auto -m long

lint: setup ## Check style, types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

bundle: setup ## Build what Lambda and EMR run, look into it, and hold it against its budgets
	@$(BIN)/pytest -q tests/infra/test_bundling.py tests/infra/test_budgets.py

sim: setup ## Simulate the schedules of today's seeds: make sim, or SEEDS=0-2000, or SEEDS=184 to replay one
	@$(BIN)/python -m simulation seeds $(SEEDS)

faults: setup ## Simulate every fault at every call of the scenarios that `make test-all` takes a share of (minutes)
	@$(BIN)/python -m simulation singles

sim-all: setup ## Simulate every fault, every recovery, every pair (hours)
	@$(BIN)/python -m simulation all

model: setup ## Exhaust every interleaving of small set-ups, the large ones too (minutes)
	@$(BIN)/python -m simulation.model

replay: setup ## Replay 104 hours of measured traffic in virtual time
	@$(BIN)/python -m simulation traffic

evidence: setup ## Compare Tidegate with the schemes people use, and write docs/evidence.md anew
	@$(BIN)/python -m simulation evidence

bench: setup ## Measure beside peers and limits, and write docs/performance.md anew: make bench ONLY=claims
	@$(BIN)/python -m bench $(ONLY)

chaos: setup ## Kill processes of the local stack at random, then count: make chaos MINUTES=10
	@$(BIN)/python -m tests.chaos $(or $(MINUTES),10)

mutants: setup ## Change the code a little and see if a test notices: make mutants MODULE=tidegate/core/claims.py
	@$(BIN)/python -m tests.mutation $(MODULE)

format: setup ## Rewrite the code in the house style
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

lock: setup ## Resolve requirements.txt and package-lock.json anew
	$(BIN)/uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 --generate-hashes --upgrade \
	  --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" --quiet --output-file requirements.txt
	$(BIN)/python -m tidegate_local.toolchain lock

clean: ## Remove .venv and everything that was built
	rm -rf .venv .tidegate cdk.out build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# An older $(PYTHON) is passed over for the first newer one found. A .venv that was made by another Python, or moved from
# elsewhere, is made anew. uv's own pin is cut out of requirements.txt, hashes and all, so that it is pinned once.
setup: ## Set up .venv, and a first tidegate.toml
	@[ -e tidegate.toml ] || cp tidegate.example.toml tidegate.toml
	@for python in "$(PYTHON)" python3.13 python3.12 python3.11 none; do \
	  "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && break; \
	done; \
	if [ "$$python" = none ]; then \
	  echo 'Tidegate needs Python 3.11 or newer. Install it, or name it: make PYTHON=/path/to/python3' >&2; exit 1; \
	fi; \
	maker="$$("$$python" -c 'import sys; print(sys.version)') in $(CURDIR)"; \
	pins=$$({ echo "$$maker"; cat $(PINS); } | cksum); \
	[ "$$(cat .venv/ready 2>/dev/null)" != "$$pins" ] || exit 0; \
	set -e; \
	[ "$$python" = "$(PYTHON)" ] || echo "$(PYTHON) is missing or older than 3.11: using $$python"; \
	echo 'Setting up .venv (the first time takes two or three minutes)'; \
	[ -w "$${HOME:-/nowhere}" ] || export PIP_NO_CACHE_DIR=1 UV_NO_CACHE=1; \
	rm -f .venv/ready; \
	if [ "$$(cat .venv/maker 2>/dev/null)" != "$$maker" ]; then \
	  "$$python" -m venv --clear .venv; \
	  echo "$$maker" > .venv/maker; \
	fi; \
	echo '  Python packages'; \
	sed -n '/^uv==/,/[^\\]$$/p' requirements.txt > .venv/uv.txt; \
	$(BIN)/python -m pip --disable-pip-version-check install --quiet --require-hashes -r .venv/uv.txt; \
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements.txt; \
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --editable .; \
	echo '  Java, Node and the Spark jars'; \
	$(BIN)/python -m tidegate_local.toolchain; \
	$(BIN)/python -m tidegate_local.emr.sharing; \
	echo "$$pins" > .venv/ready
