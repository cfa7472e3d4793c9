# make setup   create .venv with gelgt and everything its development needs
# make demo    the demo shop, from a SQLite file to a trained model, its scores beside baselines, and a report
# make test    lint, format, types, import order, then the test suite: what CI runs
# make lint    the same without the test suite
# make docs    the documentation site, with search and an API reference, in site/
# make dist    wheel and source distribution, in dist/
# make campaigns  an hour of generated cases against each promise; counts go to docs/reliability.md
# make results docs/results.md, from the studies' files in docs/results

PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup demo test campaigns docs dist results lint clean

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

# What takes seconds comes first. pytest comes last, so that its counts are the last line. Its tests start Python
# many times, which takes half a second longer each time where compiled modules may not be kept.
test: export PYTHONDONTWRITEBYTECODE =
test: .venv/.kernels lint
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not gpu and not slow and not mysql"

# Goes on where it was stopped; remove campaigns-out to begin anew.
campaigns: setup
	PYTHONPATH=src:tests $(BIN)/python -m campaigns all --minutes 60; status=$$?; PYTHONPATH=src:tests $(BIN)/python -m campaigns.counts campaigns-out; exit $$status

# A link that leads nowhere fails. What a page loads comes from the site itself, so it can be read without a network.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --clean

dist: setup
	rm -rf build dist
	$(BIN)/python -m build --no-isolation

results: setup
	$(BIN)/gelgt bench results docs/results

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

clean:
	rm -rf .venv build dist site src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
