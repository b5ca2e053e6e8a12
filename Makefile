# make demo: run the demo. make test: run all tests. make check: run before a review.
VENV   := .venv
BIN    := $(VENV)/bin
PYTHON ?= python3
STAMP  := $(VENV)/.installed
RUNTIME := $(VENV)/.runtime
# Tests wait for other processes much of the time: three workers for each core.
WORKERS ?= $(shell echo $$((3 * $$(getconf _NPROCESSORS_ONLN))))
UPGRADE ?=
SITE   := .site
COMPILE := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --custom-compile-command 'make constraints'

.PHONY: demo test soak check bench attack proto docs site screenshots headlamp headlamp-record headlamp-proof chart constraints release-check clean

demo: $(RUNTIME)  ## run the health-metric demo on three local nodes; installs no developer tools
	$(BIN)/plimsoll demo

test: $(STAMP)  ## run all tests in several processes
	$(BIN)/pytest --numprocesses=$(WORKERS) --dist=loadfile

soak: $(STAMP)  ## fuzzing, property tests and long runs at full size: hours
	$(BIN)/pytest --soak --timeout=0

check: $(STAMP)  ## lint, format, types, imports, names, layout and generated files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -P checks/tree.py
	$(BIN)/python -P checks/exceptions.py
	$(BIN)/python -P checks/features.py
	$(BIN)/python -P docs/generate.py --check

bench: $(STAMP)  ## run all benchmarks; writes bench/results/latest.json
	$(BIN)/python -P bench/all.py
	$(BIN)/python -P docs/generate.py

attack: $(STAMP)  ## attack an evaluator and an agent: a table of latency, probes and memory; minutes
	$(BIN)/python -P bench/attack.py

proto: $(STAMP)  ## regenerate the gRPC stubs from wire/telemetry.proto
	$(BIN)/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. --grpc_python_out=. wire/telemetry.proto

docs: $(STAMP)  ## regenerate the tables under docs/
	$(BIN)/python -P docs/generate.py

site: $(SITE)/.installed  ## build the documentation into site/; installs mkdocs-material into a folder of its own
	$(SITE)/bin/mkdocs build --quiet

$(SITE)/.installed: docs/requirements.txt
	$(PYTHON) -m venv $(SITE)
	$(SITE)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r docs/requirements.txt
	@touch $@

screenshots: $(STAMP)  ## write docs/images from the pages of a sandbox; needs chromium
	$(BIN)/python -P docs/screenshots.py

NODE_MODULES := headlamp/node_modules/.package-lock.json
HEADLAMP := headlamp-plimsoll

# The folder in the archive has the name of the folder that is packed, and becomes that of the plugin.
headlamp: $(NODE_MODULES)  ## check, test and pack the Headlamp plugin into headlamp/build; needs Node 20, 900 MB
	cd headlamp && npm run lint && npm run tsc && npm test && npm run build
	rm -rf headlamp/build && mkdir headlamp/build && ln -s .. headlamp/build/$(HEADLAMP)
	cd headlamp && node_modules/.bin/headlamp-plugin package build/$(HEADLAMP) build

headlamp-record: $(STAMP)  ## record what the plugin's tests read, from a sandbox
	$(BIN)/python -P headlamp/record.py

headlamp-proof: $(STAMP) $(NODE_MODULES)  ## show the built plugin in Headlamp's pages, in chromium against a sandbox; writes headlamp/images
	cd headlamp && npm run build && npm run harness
	$(BIN)/python -P headlamp/proof.py

$(NODE_MODULES): headlamp/package-lock.json
	cd headlamp && npm ci --ignore-scripts --no-audit --no-fund

chart: $(STAMP)  ## regenerate deploy/chart from the kustomizations; needs kubectl
	$(BIN)/python -P release/chart.py

release-check: $(STAMP)  ## what a release needs and no network: versions, generated files, chart, package, SBOM
	$(BIN)/python -P release/version.py
	$(BIN)/python -P release/chart.py --check
	$(BIN)/python -P docs/generate.py --check
	$(BIN)/pytest -q tests/release tests/test_packaging.py tests/deploy/test_chart.py tests/deploy/test_chart_installed.py tests/deploy/test_dockerfile.py tests/deploy/test_bases.py

constraints:  ## regenerate both lock files with uv; UPGRADE=--upgrade or UPGRADE='--upgrade-package NAME' takes newer versions
	$(COMPILE) --all-extras --group dev $(UPGRADE) --output-file constraints.txt pyproject.toml
	$(COMPILE) --extra all --group build --constraint constraints.txt --output-file requirements.txt pyproject.toml
	$(COMPILE) --group site $(UPGRADE) --output-file docs/requirements.txt pyproject.toml

clean:
	rm -rf $(VENV) .sandbox .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# $(call install,FILE): a virtual environment with the packages of FILE and this checkout.
define install
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "Plimsoll needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1). For another: make PYTHON=python3.12" >&2; exit 1; }
	@echo "Installing Plimsoll and its dependencies into $(VENV), once (from $(1)) ..."
	@if command -v uv >/dev/null 2>&1; then \
	  uv venv --quiet --seed --allow-existing --python $(PYTHON) $(VENV) && \
	  uv pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r $(1) && \
	  uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .; \
	else \
	  $(PYTHON) -m venv $(VENV) && \
	  $(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r $(1) && \
	  $(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .; \
	fi
endef

$(STAMP): pyproject.toml constraints.txt
	$(call install,constraints.txt)
	@touch $(RUNTIME) $@

$(RUNTIME): pyproject.toml requirements.txt
	$(call install,requirements.txt)
	@touch $@
