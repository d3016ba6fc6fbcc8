# Two commands are the whole set-up: `make demo` and `make test`. Both create .venv when it is not there.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# tiny tensors: a second thread inside a process only costs
export OMP_NUM_THREADS ?= 1

.PHONY: help demo test lint types unit coverage resuming theory clean

help:
	@echo "make demo    install into .venv and show the library at work"
	@echo "make test    install into .venv, then lint, types and tests"
	@echo "make coverage  the tests again, with the lines they do not reach"
	@echo "make resuming  kill a sweep ten times with each of two backends, and see it end as if nothing had been"
	@echo "make theory  check every number of docs/theory.md and draw its figure"
	@echo "make clean   remove .venv and caches"

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[test,cli,plots,export,examples,distributed]'
	@touch $@

demo: $(STAMP)
	$(BIN)/legendretron demo

test: lint types unit

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(STAMP)
	$(BIN)/mypy

unit: $(STAMP)
	$(BIN)/python -m pytest -n auto

coverage: $(STAMP)
	$(BIN)/python -m pytest -n auto --cov --cov-report=term

resuming: $(STAMP)
	LEGENDRETRON_KILLS=10 $(BIN)/python -m pytest tests/experiments/test_resuming.py

theory: $(STAMP)
	$(BIN)/python examples/theory.py --out docs

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage* demo_output
