# make setup   create .venv with gelgt and everything its development needs
# make demo    the demo shop, from a SQLite file to a trained model, its scores beside baselines, and a report
# make test    the test suite (what CI runs)
# make results docs/results.md, from the studies' files in docs/results
# make check   lint, format, types, import order, then the test suite

PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup demo test results check lint clean

setup: .venv/.ready

.venv/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "gelgt needs Python 3.11 or newer; try: make PYTHON=python3.12 setup"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch .venv/.ready

# The GPU kernels are tested on the CPU by Triton's interpreter, and rel-llm on tiny language models; nothing else here needs either.
.venv/.kernels: .venv/.ready
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[kernels,llm]'
	@touch .venv/.kernels

demo: setup
	$(BIN)/gelgt demo

test: .venv/.kernels
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not gpu and not slow and not mysql"

results: setup
	$(BIN)/gelgt bench results docs/results

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint test

clean:
	rm -rf .venv build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
