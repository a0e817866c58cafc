# All set-up happens here: a fresh machine needs Python 3.11+ and make.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/pip --disable-pip-version-check
PEER   := .venv-bde
# without their dependencies, which the extra `bench` names but for torchvision: that is built for CUDA, and not imported
LAPLACE := laplace-torch curvlinops-for-pytorch asdfghjkl backpack-for-pytorch einconv unfoldNd

.PHONY: setup setup-bench setup-docs demo docs docs-fast test test-all examples references scoreboard lint bench results audit-table stubs features clean

setup: $(VENV)/.ready
$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) install -q -c constraints.txt -e '.[dev]'
	touch $@

setup-bench: $(VENV)/.ready-bench $(PEER)/.ready
$(VENV)/.ready-bench: $(VENV)/.ready
	$(PIP) install -q -c constraints.txt -e '.[bench]'
	$(PIP) install -q -c constraints.txt --no-deps $(LAPLACE)
	touch $@

setup-docs: $(VENV)/.ready-docs
$(VENV)/.ready-docs: $(VENV)/.ready
	$(PIP) install -q -c constraints.txt -e '.[docs]'
	touch $@

# a peer of its own environment: it needs an old blackjax; the rest is what constraints.txt has
$(PEER)/.ready: Makefile constraints.txt
	$(PYTHON) -m venv $(PEER)
	grep -iv '^blackjax=' constraints.txt > $(PEER)/constraints.txt
	$(PEER)/bin/pip --disable-pip-version-check install -q -c $(PEER)/constraints.txt sklearn-contrib-bde==1.0.2
	touch $@

demo: setup
	$(BIN)/langevin fit airfoil --hidden 32,32 --activation tanh --prior fan_in --chains 4 --draws 240 \
	  --report out/report.html --json out/fit.json

# the book: examples and snippets are run, a warning is an error, every link and anchor of what was built is checked
SPHINX = $(BIN)/python -m sphinx -q -b html -n -W --keep-going docs docs/_build/html
docs: setup-docs
	$(BIN)/python tools/snippets.py
	$(SPHINX)
	$(BIN)/python tools/site.py docs/_build/html

# for writing: nothing is executed
docs-fast: setup-docs
	BOOK_FAST=1 $(SPHINX)
	$(BIN)/python tools/site.py docs/_build/html

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tools/stubs.py --check
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(BIN)/python -m pytest -n 2 -m 'not slow'

test-all: lint
	$(BIN)/python -m pytest -n 2

# every script of the gallery; each ends with assertions
examples: setup
	$(BIN)/python tools/examples.py

bench: setup-bench
	$(BIN)/langevin bench --all --out lab/results/bench

results: setup
	$(BIN)/langevin reproduce --all --out lab/results

# comparisons with other libraries, as one page
scoreboard: setup-bench
	$(BIN)/python tools/scoreboard.py --run

# ten small posteriors: 10,000 trusted draws each, kept as data
references: setup
	$(BIN)/python -m langevin_lab.references.make

audit-table: setup
	$(BIN)/langevin audit --all --size quick --out docs
	mv docs/audit.json langevin/audit/table.json

stubs: setup
	$(BIN)/python tools/stubs.py

# nets whose features compare images; needs LANGEVIN_DATA
features: setup
	$(BIN)/python -m langevin_lab.experiments._features

clean:
	rm -rf docs/_build docs/_generated docs/api docs/gallery docs/methods docs/results
	rm -rf $(VENV) $(PEER) out .pytest_cache .mypy_cache .ruff_cache
