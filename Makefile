# Every target sets up what it needs. `make demo` and `make test` are the two that matter.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON := .venv/bin/python
SEED ?=

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: venv
venv: packages .venv/.stamp ## Python and Debian packages; leaves the CLI at .venv/bin/sguard

# Exit code 3 means "cannot install here" and was said in one line; the targets go on with what works.
.PHONY: packages
packages:
	@scripts/setup-debian.sh || [ $$? -eq 3 ]

.venv/.stamp: pyproject.toml constraints.txt scripts/make-venv.sh
	@scripts/make-venv.sh

.PHONY: test
test: venv ## unit tests, and the tests on a real Slurm where it can run
	@scripts/run-tests.sh

.PHONY: unit
unit: .venv/.stamp ## the tests that need neither root nor Slurm (as root: all unit tests)
	@$(PYTHON) -m pytest -q -n 2 --dist loadfile tests --ignore=tests/cluster

.PHONY: lint
lint: .venv/.stamp ## ruff, mypy, import-linter, vermin, generated docs
	@scripts/lint.sh

.PHONY: format
format: .venv/.stamp ## let ruff rewrite what it can
	@.venv/bin/ruff check -q --fix . ; .venv/bin/ruff format -q .

.PHONY: docs
docs: .venv/.stamp ## write the generated pages of docs/ anew
	@$(PYTHON) scripts/gendocs.py

.PHONY: demo
demo: venv ## from a hardware fault to a job report on a real Slurm (SEED=n draws another story)
	@scripts/run-demo.sh $(SEED)

.PHONY: bench
bench: venv ## the figures of the hot path, the store and the CLI, beside their budgets
	@$(PYTHON) -m bench

.PHONY: bench-peers
bench-peers: venv ## the same kind of checks with other tools, in an environment of their own
	@scripts/bench-peers.sh

.PHONY: soak
soak: venv ## the long campaigns: 1,000 kills, 500 interleavings, 20 demos, jobs and faults (MINUTES=10, FUZZ=60)
	@FUZZ=$(or $(FUZZ),60) scripts/soak.sh $(or $(MINUTES),10)

.PHONY: fuzz
fuzz: venv ## every parser of foreign bytes, coverage-guided, so many SECONDS each (60)
	@scripts/fuzz.sh $(or $(SECONDS_EACH),60)

.PHONY: clean
clean: ## everything that was built
	@rm -rf .venv .venv-peers .venv-fuzz .cache build dist .hypothesis .pytest_cache .import_linter_cache
	@find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
