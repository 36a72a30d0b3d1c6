# Plain commands; the README gives the same ones for systems without make.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test check install models clean

demo: models
	$(BIN)/duet demo

test: models
	$(BIN)/python -m tools.gate test

check: install
	$(BIN)/python -m tools.gate check

models: install
	$(BIN)/duet models pull demo

install:
	$(PYTHON) tools/install.py

clean:
	rm -rf .venv build dist htmlcov demo-out .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis
