# Every target sets up what it needs; setting up again costs nothing while pyproject.toml and constraints.txt stay as they are.
PYTHON ?= python3
ARGS ?=
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help setup alfworld alfworld-wheels demo test test-vllm clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## make .venv and install the pinned dependencies and the package (PYTHON=python3.12 picks another interpreter)
	@PYTHON="$(PYTHON)" sh scripts/setup.sh

# The planner is compiled beside the rest of the set-up.
alfworld: ## set up, with ALFWorld's engine (its planner is compiled, which takes minutes and needs cmake, make and g++)
	@PYTHON="$(PYTHON)" sh scripts/setup.sh venv
	@sh scripts/alfworld.sh compilers
	@$(MAKE) --no-print-directory -j2 setup alfworld-wheels
	@sh scripts/alfworld.sh

alfworld-wheels:
	@sh scripts/alfworld.sh wheels

demo: setup ## train an agent on household tasks, from nothing, in minutes (ARGS="--seed 1 --out runs/one" passes options on)
	$(BIN)/branchwise train household $(or $(ARGS),$(if $(wildcard runs/household-seed0/config.json),--resume))

test: alfworld ## lint, format, types and tests (ALLOW_SKIP=1 lets tests skip what this machine lacks; ARGS goes to pytest)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/python -m pytest -n auto --dist loadgroup --no-loadscope-reorder $(ARGS)

test-vllm: ## run the tests of the vllm engine on a CPU, in an environment of its own, .venv-vllm (ARGS goes to pytest)
	@PYTHON="$(PYTHON)" sh scripts/setup_vllm.sh
	.venv-vllm/bin/python -m pytest tests/vllm_engine $(ARGS)

clean: ## remove .venv and .venv-vllm, caches and builds; runs/ stays
	rm -rf .venv .venv-vllm .cache .pytest_cache .ruff_cache .hypothesis build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
