# One command does it all: `make demo` shows nettune, `make test` proves it. Both start from a bare checkout.
#   PYTHON=python3.12         another interpreter (3.11 or newer)
#   EXTRAS=train,sweeps       what to install beside the core, `train` (torch) by default
#   PIP_ARGS="..."            extra words for pip, for example an index that has CPU-only wheels of torch
#   ARGS="--fault slow-link"  words for `nettune demo`
#   PYTEST_ARGS="-k lab"      words for pytest

PYTHON ?= python3
EXTRAS ?= train
ARGS ?=
PIP_ARGS ?=
PYTEST_ARGS ?=

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

VENV := .venv
WHEEL_VENV := .venv-wheel
PACKAGES := nettune collectives topology sweeps reports
SOURCES := $(shell find $(PACKAGES) -type f -not -name '*.pyc' 2>/dev/null)
EXTRA_LIST := $(if $(EXTRAS),[$(EXTRAS)])
PIP := $(VENV)/bin/python -m pip --quiet --quiet --disable-pip-version-check
INSTALL := $(PIP) install --constraint constraints.txt $(PIP_ARGS)
TIMED := TIMEFORMAT='    %1R s'; time

.PHONY: help
help:  ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

.PHONY: demo
demo: $(VENV)/.installed  ## the whole job on an emulated fabric, about 3 minutes (ARGS="--fault slow-link")
	@$(VENV)/bin/nettune demo $(ARGS)

# Tests with a lab mostly wait and the others compute, so the two halves run side by side.
.PHONY: test
test: lint $(WHEEL_VENV)/.installed  ## everything CI runs: lint, types, and the tests against the built wheel
	@echo "==> tests against the wheel, from $(WHEEL_VENV)/run" >&2
	@cd $(WHEEL_VENV)/run && export PATH="$(CURDIR)/$(WHEEL_VENV)/bin:$$PATH" NETTUNE_TEST_WHEEL=1; \
	half() { "$(CURDIR)/$(WHEEL_VENV)/bin/python" -m pytest -c "$(CURDIR)/pyproject.toml" --rootdir "$(CURDIR)" \
	  -p no:cacheprovider "$(CURDIR)/tests" -m "$$1" $(PYTEST_ARGS); }; \
	half lab > lab.log 2>&1 & lab=$$!; trap 'kill $$lab 2> /dev/null || true' EXIT; \
	code=0; half "not lab" || code=$$?; lab_code=0; wait $$lab || lab_code=$$?; \
	if ((lab_code)); then cat lab.log; else grep -E '^SKIPPED|^=.* in [0-9]' lab.log; fi; \
	echo "==> exit codes: $$code, with a lab $$lab_code" >&2; \
	case $$code,$$lab_code in 0,0|0,5|5,0) ;; *) exit 1 ;; esac

.PHONY: lint
lint: $(VENV)/.installed-dev  ## ruff and mypy
	@echo "==> ruff" >&2
	@$(TIMED) { $(VENV)/bin/ruff check --quiet . && $(VENV)/bin/ruff format --quiet --check .; }
	@echo "==> mypy --strict" >&2
	@$(TIMED) $(VENV)/bin/mypy

.PHONY: fix
fix: $(VENV)/.installed-dev  ## let ruff format and repair what it can
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

.PHONY: bench
bench: $(VENV)/.installed-dev  ## benchmarks of nettune's own code (pytest-benchmark)
	$(VENV)/bin/python -m pytest --benchmark-only -o python_files='bench_*.py' tests/bench $(PYTEST_ARGS)

.PHONY: campaign
campaign: $(VENV)/.installed-dev  ## slow measurements that the documented figures come from
	$(VENV)/bin/python -m pytest -o python_files='campaign_*.py' tests/campaigns $(PYTEST_ARGS)
	NETTUNE_PLACE_CAMPAIGN=1 $(VENV)/bin/python -m pytest tests/topology/placement/test_place_quality.py $(PYTEST_ARGS)

.PHONY: fuzz
fuzz: $(VENV)/.installed-dev  ## 20,000 mutated inputs over the readers of discover, the lints and the checks
	NETTUNE_FUZZ=20000 NETTUNE_FUZZ_CAPTURES=20000 $(VENV)/bin/python -m pytest \
	  tests/topology/readers/test_reader_contract.py tests/collectives/nccl/test_nccl_lint_fuzz.py \
	  tests/qualify/checks/test_checks_hostile.py $(PYTEST_ARGS)

.PHONY: wheel
wheel: dist/.built  ## sdist and wheel in dist/

.PHONY: clean
clean:  ## remove everything that make made, runs/ excepted
	rm -rf $(VENV) $(WHEEL_VENV) dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .benchmarks
	find $(PACKAGES) tests -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp is written last, so that an interrupted installation is done again.
$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "error: $(PYTHON) is not Python 3.11 or newer: make PYTHON=python3.12 ..." >&2; exit 2; }
	@echo "==> creating $(VENV) with $$($(PYTHON) --version)" >&2
	@$(TIMED) $(PYTHON) -m venv --clear $(VENV)
	@touch $@

# Builds use the pinned hatchling of $(VENV): nothing unpinned is fetched for an isolated build.
$(VENV)/.installed: $(VENV)/.created pyproject.toml constraints.txt
	@echo "==> installing nettune$(EXTRA_LIST)$(if $(findstring train,$(EXTRAS)),; torch is large: this can take minutes)" >&2
	@$(TIMED) { $(INSTALL) hatchling && \
	  $(INSTALL) --no-build-isolation --editable '.$(EXTRA_LIST)'; }
	@touch $@

# The tests start ranks with a real mpirun.
$(VENV)/.installed-dev: $(VENV)/.installed
	@echo "==> installing the development tools" >&2
	@$(VENV)/bin/python -c 'import tomllib; known = tomllib.load(open("pyproject.toml", "rb")); \
	  print(*known["dependency-groups"]["dev"], *known["project"]["optional-dependencies"]["mpi"], sep="\n")' > $(VENV)/dev.txt
	@$(TIMED) $(INSTALL) --requirement $(VENV)/dev.txt
	@touch $@

dist/.built: $(VENV)/.installed-dev $(SOURCES) pyproject.toml README.md LICENSE
	@echo "==> building the wheel" >&2
	@rm -rf dist
	@$(TIMED) $(VENV)/bin/python -m build --no-isolation --outdir dist . > $(VENV)/build.log 2>&1 \
	  || { cat $(VENV)/build.log >&2; exit 1; }
	@touch $@

# The wheel's environment borrows the dependencies of $(VENV) by a .pth file. The editable nettune there stays
# out of it, because .pth files inside a folder that is added this way are not read.
$(WHEEL_VENV)/.installed: dist/.built
	@echo "==> installing the wheel into $(WHEEL_VENV)" >&2
	@$(TIMED) { $(VENV)/bin/python -m venv --clear --without-pip $(WHEEL_VENV) && \
	  $(PIP) --python $(WHEEL_VENV)/bin/python install --no-deps --no-index dist/*.whl && \
	  site='import sysconfig; print(sysconfig.get_path("purelib"))' && \
	  $(VENV)/bin/python -c "$$site" > "$$($(WHEEL_VENV)/bin/python -c "$$site")/dependencies.pth" && \
	  mkdir $(WHEEL_VENV)/run; }
	@touch $@
