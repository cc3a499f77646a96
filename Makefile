# `make` lists what can be made. Needs Python 3.11, 3.12 or 3.13 (with its venv module) and nothing else.

PYTHON ?=#      the interpreter that creates the virtual environment; by default the first suitable one below
VENV ?= .venv#  the virtual environment; created, and kept up to date with pyproject.toml and constraints.txt
ARGS ?=#        passed on to the experiment or to pytest

# A name on the PATH may be a pyenv shim for a Python that is not there, while pyenv has another.
PYENV := $(HOME)/.pyenv/versions
CANDIDATES := $(or $(strip $(PYTHON)),python3 python3.12 python3.11 python3.13 $(PYENV)/3.1[123].*/bin/python)
RUN := $(strip $(VENV))/bin/python
STAMP := $(strip $(VENV))/.metaevo-installed

# Tests start hundreds of Python processes, and without .pyc files each of them compiles all of metaevo.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup evolve pages docs test lint format test-slow test-faults test-postgres test-slurm test-suites smoke constraints gpu-programs test-gpu-programs discogen

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' Makefile
	@echo 'Variables: PYTHON=python3.12  VENV=.venv  ARGS="..." (for the experiment or for pytest)'
	@echo 'Example:   make evolve ARGS="--learner ppo --run-dir runs/a"'

evolve: $(STAMP) ## set up, then evolve a loss for Q-learning and compare it, also on tasks it has not seen
	$(RUN) experiments/evolve_value_loss.py $(ARGS)

PYTEST = $(RUN) -m pytest -n auto --maxprocesses 8 --dist loadfile --no-loadscope-reorder
OTHERS = not slow and not faults and not postgres and not slurm and not gpu_programs

test: $(STAMP) lint ## set up, then lint, type-check and test
	$(PYTEST) -m 'not long and $(OTHERS)' $(ARGS)
	@echo 'Left out: whole runs of the commands and of learners (make test-all), what needs minutes each'
	@echo '(make test-slow), kills and broken disks (make test-faults), PostgreSQL, SLURM.'

test-all: $(STAMP) lint ## the same, and whole runs of the commands and of learners
	$(PYTEST) -m '$(OTHERS)' $(ARGS)

test-slow: $(STAMP) ## the tests that need minutes each
	$(RUN) -m pytest -m slow $(ARGS)

test-faults: $(STAMP) ## kills, full disks, signals, damaged files (docs/explanation/reliability.md)
	$(RUN) -m pytest -m faults $(ARGS)

# Needs Debian's package postgresql; the server is started, and ended, by tests/postgres/server.sh.
test-postgres: $(STAMP) ## the tests with a PostgreSQL server (apt install postgresql)
	@$(RUN) -m pip install -qq --disable-pip-version-check --editable '.[dev,postgres]' --constraint constraints.txt
	$(RUN) -m pytest -m postgres $(ARGS)

# Needs Debian's packages slurm-wlm and munge; the daemons are started, and stopped, by tests/slurm/server.sh.
test-slurm: $(STAMP) ## the batch script on a SLURM cluster (apt install slurm-wlm munge)
	$(RUN) -m pytest -m slurm $(ARGS)

test-suites: $(STAMP) ## the tests of all suites of environments, which it installs
	@$(RUN) -m pip install -qq --disable-pip-version-check --editable '.[dev,brax,navix,xminigrid,craftax]' --constraint constraints.txt
	$(RUN) -m pytest tests/purerl/test_suites.py tests/metaevo/commands/test_environments.py $(ARGS)

# In an environment of its own: CUDA's libraries take 4 GB, and a GPU is not needed.
CUDA_VENV := $(strip $(VENV))-cuda
CUDA := JAX_PLATFORMS=cpu CUDA_VISIBLE_DEVICES=-1 JAX_ENABLE_COMPILATION_CACHE=false $(CUDA_VENV)/bin/python
$(CUDA_VENV)/.metaevo-installed: pyproject.toml constraints.txt | $(STAMP)
	@$(RUN) -m venv $(CUDA_VENV)
	@$(CUDA_VENV)/bin/python -m pip install -qq --disable-pip-version-check --editable '.[dev,cuda12]' --constraint constraints.txt
	@touch $@

# In an environment of its own, which needs Python 3.12 or later and an older gymnax.
discogen: ## install DiscoGen's benchmark (docs/how-to/discogen.md)
	@for each in $(CANDIDATES); do \
	  "$$each" -c 'import sys, venv; sys.exit(sys.version_info < (3, 12))' 2>/dev/null && \
	    exec "$$each" -m venv --clear .venv-discogen; \
	done; echo 'error: needs Python 3.12 or 3.13 (name one with PYTHON=...)' >&2; exit 1
	@.venv-discogen/bin/python -m pip install -qq --disable-pip-version-check --requirement experiments/discogen/requirements.txt
	@.venv-discogen/bin/python -m pip install -qq --disable-pip-version-check --no-deps discogen==1.3.0

gpu-programs: $(CUDA_VENV)/.metaevo-installed ## compile for a GPU that need not be there; count launches and bytes
	$(CUDA) -m experiments.benchmarks.gpu_programs $(ARGS)

test-gpu-programs: $(CUDA_VENV)/.metaevo-installed ## the tests of such programs (minutes each)
	$(CUDA) -m pytest -m gpu_programs tests/gpu_programs $(ARGS)

pages: $(STAMP) ## write the generated tables and signatures of the pages anew
	$(RUN) docs/pages.py

docs: $(STAMP) ## build the documentation into site/, which opens without a server
	@$(RUN) -m pip install -qq --disable-pip-version-check --editable '.[dev,docs]' --constraint constraints.txt
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict $(ARGS)

smoke: $(STAMP) ## a handful of quick tests that show that the installation works
	$(RUN) -m pytest -m smoke $(ARGS)

lint: $(STAMP) ## ruff (rules and format), mypy, and who imports whom
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	$(dir $(RUN))lint-imports
	$(RUN) tests/mutations/run.py --check

format: $(STAMP) ## let ruff repair and format the code
	$(RUN) -m ruff check --fix .
	$(RUN) -m ruff format .

setup: $(STAMP) ## create the virtual environment and install everything into it

# An environment whose interpreter no longer runs is made anew; a folder that is no environment is left alone.
$(STAMP): pyproject.toml constraints.txt
	@if ! $(RUN) -c '' 2>/dev/null; then \
	  if [ -e "$(VENV)" ] && [ ! -e "$(VENV)/pyvenv.cfg" ]; then \
	    echo "error: $(VENV) exists and is not a virtual environment; choose another with VENV=" >&2; exit 1; \
	  fi; \
	  python=; \
	  for candidate in $(CANDIDATES); do \
	    if "$$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' >/dev/null 2>&1; then \
	      python=$$candidate; break; \
	    fi; \
	  done; \
	  if [ -z "$$python" ]; then \
	    echo "error: needs Python 3.11, 3.12 or 3.13; found none as: $(CANDIDATES) (name one with PYTHON=...)" >&2; exit 1; \
	  fi; \
	  if ! "$$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then \
	    echo "error: $$python has no venv module (on Debian and Ubuntu: apt install python3-venv)" >&2; exit 1; \
	  fi; \
	  echo "Creating $(VENV) with $$("$$python" --version)"; \
	  "$$python" -m venv --clear "$(VENV)" || exit 1; \
	fi
	@echo "Installing into $(VENV): one to two minutes the first time, longer on a slow network, without further output"
	@$(RUN) -m pip install -qq --disable-pip-version-check --editable '.[dev]' --constraint constraints.txt
	@touch $@
	@echo "Ready: source $(VENV)/bin/activate"

# For maintainers. Keeps the pins that still fit; ARGS=--upgrade renews them all.
constraints: ## resolve pyproject.toml into constraints.txt, for all Pythons at once
	@scratch=$$(mktemp -d) && trap 'rm -rf "$$scratch"' EXIT && \
	python3 -m venv "$$scratch/venv" && "$$scratch/venv/bin/python" -m pip install -qq --disable-pip-version-check uv && \
	cp constraints.txt "$$scratch/pins.txt" && \
	"$$scratch/venv/bin/uv" pip compile --quiet pyproject.toml --extra dev --extra docs \
	  --extra brax --extra navix --extra xminigrid --extra craftax --universal --python-version 3.11 \
	  --no-emit-index-url --no-emit-find-links --no-annotate --no-header -o "$$scratch/pins.txt" $(ARGS) && \
	{ echo "# Every package of metaevo[dev,docs] and its suites, pinned for all supported Pythons. Made by: make constraints"; \
	  cat "$$scratch/pins.txt"; } > "$$scratch/constraints.txt" && \
	cp "$$scratch/constraints.txt" constraints.txt
