# Every target sets up what it needs. `make help` lists them.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help setup demo test truth fuzz accuracy check interop fmt clean crash bench-kernels bench-server bench-exporters bench-stats-speed bench-stats

help:  ## what can be done
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

setup: $(STAMP)  ## virtual environment and install

NATIVE := $(wildcard kernels/cpu/*.cpp kernels/cpu/*.hpp kernels/cpu/CMakeLists.txt)

$(STAMP): pyproject.toml constraints.txt tools/setup.sh $(NATIVE)
	@bash tools/setup.sh "$(PYTHON)" "$(VENV)"
	@touch $(STAMP)

demo: setup  ## the main job: where P99 breaks on the bundled server, then both paths side by side (under 5 minutes)
	@$(BIN)/tailbreak run scenarios/quickstart.toml; first=$$?; $(BIN)/tailbreak run scenarios/paths.toml && exit $$first

test: setup  ## every test, with what they need installed
	@bash tools/test_needs.sh
	@$(BIN)/python -m pytest --cov --cov-report=term:skip-covered

fuzz: setup  ## 20,000 malformed requests to the bundled server (about 5 minutes, at most 30)
	@TAILBREAK_FUZZ=20000 timeout 1800 $(BIN)/python -m pytest -s --durations=5 tests/e2e/test_fuzz.py

accuracy: setup  ## draws, kept sets and FP8 codes of every kernel build at full sizes (about 1.5 hours)
	@TAILBREAK_ACCURACY=1 $(BIN)/python -m pytest -s --durations=10 tests/oracles/test_sampling_accuracy.py tests/oracles/test_path_accuracy.py tests/unit/kernels/test_state_codec.py

SEEDS ?= 3

truth: setup  ## planted laws against what is reported, and the error of TTFT (SEEDS=3: about 15 minutes)
	@$(BIN)/python -m tools.truth_laws --seeds $(SEEDS)
	@$(BIN)/python -m tools.stamp_error

check: setup  ## format, lint, types, import contracts: what CI runs after the tests
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench-server: setup  ## what serving costs beside the work itself, as ratios within one run (about 20 minutes)
	@$(BIN)/python -m tools.bench_server

BENCH_MINUTES ?= 90

bench-stats: setup  ## scores of the intervals and of looking often on planted truths (at most 90 minutes; killed, it goes on)
	@$(BIN)/python -m harness.stats.bed --minutes $(BENCH_MINUTES)

bench-exporters: setup  ## what watching costs: exporters, and the run that is watched (about 20 minutes)
	@$(BIN)/python -m tools.bench_exporters

bench-stats-speed: setup  ## what intervals and the stopping rule cost beside a sort of the same values (about a minute)
	@$(BIN)/python -m tools.bench_stats_speed

interop: setup  ## build llama-cpp-python's server (10 minutes the first time) and measure it
	@bash tools/interop.sh "$(PYTHON)"

crash: setup  ## the proof of crash safety: 30 kill -9 at random moments, what was lost (about 10 minutes)
	@$(BIN)/python -m tests.e2e.crash

bench-kernels: setup  ## what each kernel costs beside its peers and the memory's floor (some 2 minutes on a quiet machine)
	@$(BIN)/tailbreak bench kernels

fmt: setup  ## format and fix what can be fixed
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

clean:  ## remove the virtual environment and caches, never runs
	rm -rf $(VENV) .interop .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
