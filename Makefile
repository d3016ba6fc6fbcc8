# `make demo` and `make test` need no other set-up: both create .venv if it is missing.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OLDEST := .venv-oldest
PIP := -m pip install --quiet --disable-pip-version-check
# each worker begins with files of its own, whose fixtures and imports it has once, and takes others' at the end
WORKERS := -n auto --dist worksteal
# checks of documents and of the records that they show, not of the library
DOCUMENTS := $(addprefix tests/,test_docs.py test_gallery.py test_site.py test_wheel.py paper/test_auc_record.py \
	paper/test_libsvm_record.py)
UNIT := $(WORKERS) -m "not exhaustive" $(DOCUMENTS:%=--ignore=%)
TESTED := .[test,cli,plots,excel,export,examples,distributed]

# tensors are tiny: a second thread per process only slows it down
export OMP_NUM_THREADS ?= 1
# without bytecode on disk, each of the processes that tests start would compile all of torch
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-docs test-all lint types unit exhaustive coverage portable oldest resuming theory docs bench rooms clean

help:
	@echo "make demo        install into .venv and show the library at work"
	@echo "make test        install into .venv, then run linters, type checks and tests, in about four minutes on two cores"
	@echo "make test-docs   check that documents show what the records and the code say"
	@echo "make test-all    the same, plus the tests marked exhaustive, in eighteen minutes or more"
	@echo "make portable    the tests under different floating-point arithmetic, as on another processor"
	@echo "make oldest      the tests with the oldest supported versions of the dependencies, in .venv-oldest"
	@echo "make coverage    the tests, with a coverage report"
	@echo "make resuming    kill and resume a sweep ten times with each of two backends, and compare the results"
	@echo "make theory      check every number of docs/theory.md and draw its figure"
	@echo "make docs        build the documentation site into docs/_build/html; it runs the examples, in two minutes"
	@echo "make bench       time everything beside its peers, and compare with the records; half an hour on a quiet machine"
	@echo "make rooms       draw the imports between subpackages, and update the table in CONTRIBUTING.md"
	@echo "make clean       remove the virtual environments and caches"

# The demo's dependencies are installed first; Ray, Transformers and others only for the tests. --no-compile: compiling all
# of torch to bytecode takes longer than unpacking it, and Python compiles what it imports anyway.
$(VENV)/.demo: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP) --no-compile --constraint constraints.txt torch --editable '.[cli,plots]'
	@touch $@

$(VENV)/.tested: $(VENV)/.demo
	$(BIN)/python $(PIP) --constraint constraints.txt --editable '$(TESTED)'
	@touch $@

# compiled again when the sources change
$(VENV)/.compiled: $(VENV)/.tested $(wildcard src/legendretron/accelerate/*.py src/legendretron/accelerate/cpu/*.py)
	$(BIN)/python -m tests.compile_first
	@touch $@

$(OLDEST)/.tested: pyproject.toml constraints-oldest.txt
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python $(PIP) --constraint constraints-oldest.txt torch --editable '$(TESTED)'
	@touch $@

$(VENV)/.documented: $(VENV)/.demo
	$(BIN)/python $(PIP) --constraint constraints.txt --editable '.[cli,plots,docs]'
	@touch $@

demo: $(VENV)/.demo
	$(BIN)/legendretron demo

# mypy is one process, and so is the first step of the tests: together they leave no core idle
test: lint
	$(MAKE) --jobs=2 types unit

test-all: test test-docs exhaustive

lint: $(VENV)/.tested
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/.tested
	$(BIN)/mypy

unit: $(VENV)/.compiled
	$(BIN)/python -m pytest $(UNIT)

test-docs: $(VENV)/.tested
	$(BIN)/python -m pytest $(WORKERS) -m "not exhaustive" $(DOCUMENTS)

exhaustive: $(VENV)/.tested $(VENV)/.documented
	$(BIN)/python -m pytest $(WORKERS) -m exhaustive

portable: $(VENV)/.tested
	$(BIN)/python -m tests.other_arithmetic $(UNIT)

oldest: $(OLDEST)/.tested
	$(OLDEST)/bin/python -m pytest $(UNIT)

coverage: $(VENV)/.tested
	$(BIN)/python -m pytest $(UNIT) --cov --cov-report=term

resuming: $(VENV)/.tested
	LEGENDRETRON_KILLS=10 $(BIN)/python -m pytest tests/experiments/test_resuming.py

theory: $(VENV)/.tested
	$(BIN)/python examples/theory.py --out docs

docs: $(VENV)/.documented
	$(BIN)/python -m sphinx --builder html --jobs auto --fail-on-warning --keep-going docs docs/_build/html
	@echo "open docs/_build/html/index.html"

bench: $(VENV)/.tested
	$(BIN)/python benchmarks/bench.py --out bench

rooms: $(VENV)/.tested
	$(BIN)/python docs/rooms.py

clean:
	rm -rf docs/_build docs/api docs/auto_examples docs/sg_execution_times.rst
	rm -rf $(VENV) $(OLDEST) .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage* demo_output
