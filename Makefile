# make demo: run the demo. make test: run all tests. make check: run before a review.
VENV   := .venv
BIN    := $(VENV)/bin
PYTHON ?= python3
STAMP  := $(VENV)/.installed
WORKERS ?= 3
UPGRADE ?=

.PHONY: demo test soak check bench proto docs chart constraints clean

demo: $(STAMP)  ## run the health-metric demo on three local nodes
	$(BIN)/plimsoll-sandbox demo

test: $(STAMP)  ## run all tests in several processes
	$(BIN)/pytest --numprocesses=$(WORKERS) --dist=loadfile

soak: $(STAMP)  ## fuzzing, property tests and long runs at full size: hours
	$(BIN)/pytest --soak --timeout=0

check: $(STAMP)  ## lint, format, types, imports, names and layout
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -P checks/tree.py

bench: $(STAMP)  ## run all benchmarks; writes bench/results/latest.json
	$(BIN)/python -P bench/all.py
	$(BIN)/python -P docs/generate.py

proto: $(STAMP)  ## regenerate the gRPC stubs from wire/telemetry.proto
	$(BIN)/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. --grpc_python_out=. wire/telemetry.proto

docs: $(STAMP)  ## regenerate the tables under docs/
	$(BIN)/python -P docs/generate.py

chart: $(STAMP)  ## regenerate deploy/chart from the kustomizations; needs kubectl
	$(BIN)/python -P release/chart.py

constraints:  ## regenerate constraints.txt with uv; UPGRADE=--upgrade or UPGRADE='--upgrade-package NAME' takes newer versions
	uv pip compile --quiet --universal --python-version 3.11 --all-extras --group dev --generate-hashes --no-annotate \
	  --custom-compile-command 'make constraints' $(UPGRADE) --output-file constraints.txt pyproject.toml

clean:
	rm -rf $(VENV) .sandbox .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(STAMP): pyproject.toml constraints.txt
	@if command -v uv >/dev/null 2>&1; then \
	  uv venv --quiet --seed --allow-existing --python $(PYTHON) $(VENV) && \
	  uv pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r constraints.txt && \
	  uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .; \
	else \
	  $(PYTHON) -m venv $(VENV) && \
	  $(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r constraints.txt && \
	  $(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .; \
	fi
	@touch $@
