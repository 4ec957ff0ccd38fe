# Two commands matter to a reader: `make reproduce` and `make test`. Each sets up what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PYTHONUTF8 = 1
export PYTHONNOUSERSITE = 1

.DEFAULT_GOAL := help
.PHONY: help setup reproduce notebooks test live live-setup lint benchmark benchmark-lastfm lab lock clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /|/' | awk -F'|' '{printf "  make %-17s %s\n", $$1, $$2}'

setup: $(VENV)/.installed ## create .venv and install the locked packages into it

$(VENV)/.installed: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "fairnb needs Python 3.11 or newer; this is %d.%d. Try: make PYTHON=python3.12 ..." % sys.version_info[:2])'
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "The venv module is missing. On Debian: apt install python3-venv"; exit 1; }
	@echo "Setting up $(VENV) from requirements.lock (a few minutes, once)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

reproduce: setup ## rebuild every table and chart of the default experiments
	@$(BIN)/fairnb reproduce

notebooks: setup ## run every notebook again, changed or not
	@$(BIN)/fairnb reproduce --force

test: setup ## run all tests, the notebooks' stored outputs included
	$(BIN)/python -m pytest -n 2 --dist loadscope tests notebooks --nbval --nbval-sanitize-with notebooks/nbval.cfg

live-setup: setup
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r tests/live.txt

live: live-setup ## run an experiment on a small language model on this machine (10 to 30 minutes)
	$(BIN)/python -m pytest -q -s -m live -p no:nbval tests/test_live.py

lint: setup ## check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

benchmark: setup ## measure the ratios that the README names
	$(BIN)/python tests/benchmarks/bootstrap.py
	$(BIN)/python tests/benchmarks/reproduce.py
	$(BIN)/python tests/benchmarks/movielens.py
	$(BIN)/python tests/benchmarks/profiles.py
	$(BIN)/python tests/benchmarks/client.py
	$(BIN)/python tests/benchmarks/parsing.py
	$(BIN)/python tests/benchmarks/power.py

benchmark-lastfm: setup ## read 19 million plays (writes 2.4 GB below the system's temporary folder)
	$(BIN)/python tests/benchmarks/lastfm1k.py

lab: setup ## open the notebooks in JupyterLab
	$(BIN)/jupyter lab notebooks/00_start_here.ipynb

lock: ## write requirements.lock anew (needs uv)
	uv pip compile --universal --python-version 3.11 --generate-hashes --all-extras --no-header --no-emit-index-url pyproject.toml -o requirements.lock

clean: ## remove the environment and everything that a run wrote outside figures/ and notebooks/
	rm -rf $(VENV) runs
