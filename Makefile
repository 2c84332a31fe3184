PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help demo test lint docs bench mutate lock clean browser screenshots

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' Makefile

demo: $(READY)  ## run the demonstration
	@$(BIN)/softfair demo

# Without compiled files beside the sources every worker, and every process that a test starts,
# compiles tests and sources anew: half of the time of collecting.
unexport PYTHONDONTWRITEBYTECODE

# As many workers as cores: a second thread of each for small matrices would only take turns.
test: export OPENBLAS_NUM_THREADS ?= 1

test: $(READY) browser  ## run the tests; with CI=1 also the slow ones, as CI does
	@$(BIN)/python -m pytest -n auto --dist loadgroup $(if $(CI),,-m "not slow")

# The page is tested in a real Chromium. In CI a missing one fails the tests; elsewhere they say so.
browser:
	@test -n "$$SOFTFAIR_CHROMIUM" || command -v chromium >/dev/null || \
		{ test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
		echo "Installing chromium ..." && apt-get update -qq && \
		apt-get install -qq -y chromium >/dev/null 2>&1; } || \
		echo "There is no chromium and it may not be installed from here; the tests of the page need it:" \
		"apt-get install chromium, or SOFTFAIR_CHROMIUM=/path/to/chromium" >&2

lint: $(READY)  ## check style, format and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

docs: $(READY)  ## build the documentation as a site: out/docs/index.html
	@$(BIN)/python -m sphinx -q -W --keep-going -b html docs out/docs
	@echo out/docs/index.html

screenshots: $(READY) browser  ## take the pictures of the page again
	@$(BIN)/python tests/screenshots.py docs/images/page

bench: $(READY)  ## run the benchmarks
	@$(BIN)/python -m benchmarks

SAMPLE ?= 100
mutate: $(READY)  ## show which mutants of a room the tests notice: make mutate ROOM=metrics SAMPLE=100
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check cosmic-ray coverage
	@$(BIN)/python tests/mutate.py $(ROOM) --sample $(SAMPLE)

# --universal: one lock for every platform and Python. No header and no index: nothing of the machine it was made on.
lock: $(READY)  ## renew requirements.lock from pyproject.toml
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@$(BIN)/uv pip compile --quiet --universal --upgrade --no-annotate --no-header --no-emit-index-url \
		--extra test pyproject.toml -o requirements.lock
	@echo "requirements.lock is renewed; the next make installs it."

clean:  ## remove the environment and everything generated
	@rm -rf $(VENV) build dist out .pytest_cache .mypy_cache .ruff_cache .hypothesis src/*.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp comes last, so an install cut short is taken up again.
$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "softfair needs Python 3.11 or newer and '$(PYTHON)' is not: try make PYTHON=python3.12" >&2; exit 1; }
	@echo "Installing the locked packages into $(VENV) (once, a minute or two) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $@
