# Targets are what a person wants to do; `make` lists them. ARGS goes to the program behind a target:
#   make test ARGS="-k savepoint"
SHELL := /bin/sh
.DEFAULT_GOAL := help
.NOTPARALLEL:

VENV := .venv
PYTHON := $(VENV)/bin/python
INSTALLED := $(VENV)/.flinkish-installed
SPARK35 := .venv-spark35
SPARK35_INSTALLED := $(SPARK35)/.installed
# Beside that environment, not in it: jobs must run there without flinkish's own dependencies.
SPARK35_TESTS := $(SPARK35)/for-tests
# Where tests/support/venvs.py makes an environment for every line of Spark, unless told otherwise.
MATRIX_VENVS := .venv-matrix
# Processes that run tests at the same time; each has a Spark of its own in time (2 GiB). The fast tier
# has one more than a small machine has processors, because its tests wait now and then.
FAST_WORKERS := $(or $(WORKERS),3)
WORKERS ?= 2
ARGS ?=

.PHONY: help venv demo test test-deep test-matrix due mutants fuzz lint fmt bench bench-engine bench-table native compat-matrix faults completions man api-check docs docs-run site clean java moved

help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | awk -F'|' '{printf "%-20s %s\n", $$1, $$2}'

venv: $(INSTALLED) ## make .venv and install flinkish into it, with all that development needs

demo: java $(INSTALLED) ## the main job on real flights: run, savepoint, stop, resume as v2, compare (3 to 4 min)
	@$(PYTHON) -m flinkish.examples.flights.demo $(ARGS)

# Tests start Python many hundred times. Where the environment forbids .pyc files, as container images
# do, each of these processes would compile flinkish anew: a third of what a command costs.
test test-deep test-matrix: export PYTHONDONTWRITEBYTECODE =

# Lint and what is due run beside the tests, which wait now and then; lint has the import rules, so
# that the tests do not.
test: java $(INSTALLED) ## lint and the fast tier: every promise once, plain tests first (7 to 10 min; the first time up to 12)
	@mkdir -p .cache/tiers
	@{ $(MAKE) --no-print-directory lint; lint=$$?; \
	  $(PYTHON) -m tests.support.tiers status --workers $(WORKERS) && exit $$lint; } > .cache/tiers/lint.log 2>&1 & beside=$$!; \
	$(PYTHON) -m pytest -m "not deep and not matrix" --ignore=tests/test_imports.py -n $(FAST_WORKERS) --rooms=.cache/tiers/rooms.json $(ARGS); tests=$$?; \
	wait $$beside; beside=$$?; cat .cache/tiers/lint.log; exit $$((tests | beside))

test-deep: java $(INSTALLED) ## what is due of all backends, storages, pairs; MINUTES=20; ARGS=FILES; stop it when you like
	$(PYTHON) -m tests.support.tiers run --workers $(WORKERS) $(if $(MINUTES),--minutes $(MINUTES)) deep $(ARGS)

test-matrix: java $(INSTALLED) $(SPARK35_INSTALLED) ## what is due on Spark 3.5 to 4.3 (makes .venv-spark35, .venv-matrix); as test-deep
	$(PYTHON) -m tests.support.tiers run --workers $(WORKERS) $(if $(MINUTES),--minutes $(MINUTES)) matrix $(ARGS)

due: $(INSTALLED) ## what of the slow tiers is due, since when, why, and how long it takes
	@$(PYTHON) -m tests.support.tiers due --workers $(WORKERS)

mutants: java $(INSTALLED) ## break a copy of the code on purpose, one fault at a time: the fast tier must notice each
	$(PYTHON) -m tools.mutants $(ARGS)

N ?= 100000
fuzz: $(INSTALLED) ## damage N files that may come from elsewhere, and read them (N=100000, 5 min)
	$(PYTHON) -m tools.fuzz -n $(N) $(ARGS)

lint: $(INSTALLED) ## ruff, mypy --strict (tests too) and the import rules between the packages
	@mkdir -p .cache/tiers && date +%s > .cache/tiers/lint.began
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	$(PYTHON) -m pytest -q tests/test_imports.py
	@echo $$(($$(date +%s) - $$(cat .cache/tiers/lint.began))) > .cache/tiers/lint.seconds

fmt: $(INSTALLED) ## format the code and apply the lint's safe fixes
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .

bench: $(INSTALLED) ## measure what users wait for: the start-up of `list` and `--help`, and savepoints
	$(PYTHON) -m tools.bench $(ARGS)

bench-engine: java $(INSTALLED) ## measure the engine against Spark's own repartition, 5 million rows (10 min)
	@$(PYTHON) -m tools.bench engine $(ARGS)

bench-table: java $(INSTALLED) ## measure every row of docs/performance.md beside its peer; ARGS="--quick -o bench.json" to try it
	$(PYTHON) -m tools.bench table $(ARGS)

native: $(INSTALLED) ## build and install native/, with which the engine rewrites state faster; needs a C compiler
	@$(call install,./native)

compat-matrix: java $(INSTALLED) ## measure which Spark can go on with whose savepoints (makes .venv-matrix; 40 min)
	$(PYTHON) -m tools.compatmatrix $(ARGS)

faults: java $(INSTALLED) ## only the tests that break things: kill -9, full disk, torn files, vanished files
	$(PYTHON) -m pytest -m "not matrix" -n $(WORKERS) \
	  tests/checkpoint tests/savepoint tests/restore tests/registry tests/launch tests/driver tests/e2e \
	  -k "kill or full or corrupt or damage or truncat or torn or flip or vanish or unwritable or read_only or lost or missing or garbage" $(ARGS)

completions: $(INSTALLED) ## write completions/flinkish.{bash,zsh,fish} from the commands
	$(PYTHON) -m flinkish.cli.commands.completion

man: $(INSTALLED) ## write man/*.1 from the commands
	rm -f man/*.1
	$(PYTHON) -m flinkish.cli.man

api-check: $(INSTALLED) ## does a change break what its annotation promises? ARGS=--record: record what is new
	$(PYTHON) -m tools.apicheck $(ARGS)

docs: $(INSTALLED) ## write the tables of commands, exit codes and settings from the code
	$(PYTHON) -m flinkish.cli.docs

site: $(INSTALLED) ## build site/, to be served by any web server, from docs/, the commands and the docstrings
	@$(call install,--editable '.[site]')
	NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --clean

docs-run: java $(INSTALLED) ## write the console blocks of the README and the guides from a run (5 min)
	$(PYTHON) -m tests.support.guides $(ARGS)

clean: ## remove what this Makefile made, the virtual environments included
	rm -rf $(VENV) $(SPARK35) $(MATRIX_VENVS) .cache/jvm .cache/tiers .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find flinkish tests tools -name __pycache__ -type d -prune -exec rm -rf {} +

java:
	@.ci/tools java

# uv takes a third of pip's time for 120 packages, of which Spark is 450 MB. pip stands in where uv
# cannot be installed or fails: pip's configuration, such as another index, is unknown to uv. $(1) is
# what to install.
define install
{ $(PYTHON) -m pip install --quiet uv && $(PYTHON) -m uv pip install --quiet --python $(PYTHON) $(1); } || \
  $(PYTHON) -m pip install --quiet $(1)
endef

# The stamp holds the checkout's path: an environment that was copied along with a checkout still
# points to the old one, and is installed again.
ifneq ($(shell cat $(INSTALLED) 2>/dev/null),$(CURDIR))
$(INSTALLED): moved
endif

$(INSTALLED): pyproject.toml
	@python=$$(.ci/tools python) && { $(PYTHON) -m pip --version >/dev/null 2>&1 || { \
	  echo "making $(VENV) with $$python"; "$$python" -m venv --clear $(VENV); }; }
	@$(call install,--editable '.[dev]')
	@printf '%s\n' '$(CURDIR)' > $@

# Spark 3.5 runs on Python 3.11 at most; the pins are what it was released against.
$(SPARK35_INSTALLED): Makefile
	@python=$$(.ci/tools python 3.11 3.10) && "$$python" -m venv --clear $(SPARK35)
	$(SPARK35)/bin/python -m pip install --quiet pyspark==3.5.9 'numpy<2' 'pandas<3' 'pyarrow<20' setuptools \
	  rocksdict cramjam zstandard xxhash crc32c
	$(SPARK35)/bin/python -m pip install --quiet --target $(SPARK35_TESTS) pytest pytest-timeout hypothesis fsspec \
	  fastavro 'kafka-python>=3.0'
	@touch $@
