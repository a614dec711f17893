# Two commands do everything on a fresh machine: `make run` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# PORT=9192 DATA=/tmp/kohort make run
PORT ?= 9092
DATA ?= ./data
# make soak HOURS=8
HOURS ?= 0.17
# make crash ROUNDS=1000
ROUNDS ?= 20
# make replay HISTORIES=2000
HISTORIES ?= 40
# make fuzz FRAMES=10000000 SEED=7 CONVERSATIONS=100000 MINUTES=1
FRAMES ?= 1000000
MINUTES ?= 10
SEED ?= 1
CONVERSATIONS ?= 2000
# What plays as long as it was told to is not a test that hangs after a quarter of an hour.
UNTIMED := -o faulthandler_timeout=0
# A worker that dies ends the run, which says at which test: with `loadgroup` one in its place waits for ever for work.
WORKERS := -n 2 --dist loadgroup --max-worker-restart=0
# make simulation SEEDS=100-200
SEEDS ?= 0-99
# make simulation SHARDS=1000000 ARGS="-k one_group"
SHARDS ?= 20000
# make mutants SAMPLE=400 SEED=2 AT_LEAST=90 ARGS=storage
SAMPLE ?= 200
AT_LEAST ?= 0
# make shards SHARDS=1000000 PROCESSES=8
PROCESSES ?= 2
# make histories SEEDS=50000-54999 LEDGER=build/simulation/another
LEDGER ?= build/simulation/$@

.PHONY: run test test-all check format setup bench bench-curves bench-pipeline pipeline-demo spark-package crash fuzz replay simulation judge incidents soak lock clean help

run: $(VENV)/.bytecode ## install what is missing, start the broker on 127.0.0.1:9092 with its log in ./data
	@exec $(BIN)/python -m kohort serve --override listeners=PLAINTEXT://127.0.0.1:$(PORT) --override log.dirs=$(DATA) $(ARGS)

# A Docker engine for the tests of the image, where there is none, and shells for those of completion: only for CI and
# `make test-all`, never unasked.
BROUGHT := tools/shells && eval "$$(tools/docker start)" && tools/docker base &&

# In CI the slow tests run too (CI=true), and with `make test-all` the long ones.
test: $(VENV)/.dev $(VENV)/.bytecode ## install what is missing, run the tests; ARGS="tests/clients --against kafka" for a part
	$(if $(CI),$(BROUGHT)) $(BIN)/python -m pytest $(WORKERS) -m "not $(if $(CI),long,slow)" $(ARGS)

test-all: $(VENV)/.dev $(VENV)/.bytecode ## the slow and the long tests too; brings a Docker engine where there is none (as root on Debian)
	$(BROUGHT) KOHORT_SOAK_HOURS=0.17 KOHORT_BOOTSTRAP_STARTS=2 KOHORT_FLINK=1 KOHORT_STORES=1 KOHORT_DELTA=1 KOHORT_POLICIES=1 KOHORT_WHEELS=1 $(BIN)/python -m pytest $(WORKERS) $(ARGS)

check: $(VENV)/.dev ## format, lint, types, room contracts, known vulnerabilities of what is pinned
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/rooms.py --check
	$(BIN)/python tools/audit.py

.PHONY: audit
audit: $(VENV)/.dev ## ask for known vulnerabilities of what is pinned; ARGS=--refresh keeps what is known in tools/advisories.json
	@$(BIN)/python tools/audit.py $(ARGS)

bench: $(VENV)/.bytecode ## what requests cost; ARGS="--against kafka,kfake,mock" measures others in the same run
	@$(BIN)/python -m benchmarks $(ARGS)

bench-curves: $(VENV)/.bytecode ## how the cost of requests grows, as curves in docs/curves.svg: some minutes
	@$(BIN)/python -m benchmarks.curves $(ARGS)

bench-pipeline: $(VENV)/.dev ## decoding a group log on Spark, against what one would use today; ARGS="--records 6000000"
	@$(BIN)/python -m benchmarks.pipeline_decode $(ARGS)

pipeline-demo: $(VENV)/.dev ## real clients at work, the pipeline on the files and on the live broker, the report: report.html
	@$(BIN)/python -m tests.pipeline.main_job $(ARGS)

crash: $(VENV)/.dev $(VENV)/.bytecode ## SIGKILL under load, ROUNDS=20 times
	KOHORT_CRASH_ROUNDS=$(ROUNDS) $(BIN)/python -m pytest $(UNTIMED) tests/crash -k sigkill -s $(ARGS)

soak: $(VENV)/.dev $(VENV)/.bytecode ## HOURS=0.17 of real clients, hostile ones, restarts, kills and a bad disk, and what must not grow
	@$(BIN)/python -m tests.soak --hours $(HOURS) $(ARGS)

fuzz: $(VENV)/.dev $(VENV)/.bytecode ## FRAMES=1000000 mutilated requests, made from SEED=1; MINUTES=10 over every kind of listener; CONVERSATIONS=2000
	KOHORT_FUZZ_MINUTES=$(MINUTES) KOHORT_FUZZ_FRAMES=$(FRAMES) KOHORT_FUZZ_SEED=$(SEED) KOHORT_FUZZ_CONVERSATIONS=$(CONVERSATIONS) $(BIN)/python -m pytest $(UNTIMED) tests/fuzz -s $(ARGS)

simulation: $(VENV)/.dev $(VENV)/.bytecode ## SEEDS=0-99: the whole broker in virtual time, with everything that fails; SHARDS=20000 histories of one group
	KOHORT_SIMULATION_SEEDS=$(SEEDS) KOHORT_SHARD_HISTORIES=$(SHARDS) $(BIN)/python -m pytest $(UNTIMED) -n 2 tests/simulation $(ARGS)

.PHONY: histories shards judge-random
histories: $(VENV)/.dev $(VENV)/.bytecode ## the whole broker at length: SEEDS=50000-54999, both durabilities, in PROCESSES=2; LEDGER says what was played
	$(BIN)/python -m tests.simulation --seeds $(SEEDS) --processes $(PROCESSES) --ledger $(LEDGER) $(ARGS)

shards: $(VENV)/.dev ## SHARDS=20000 histories of one group in PROCESSES=2 processes; LEDGER says what was played; ARGS="--first 500000"
	$(BIN)/python -m tests.simulation.shard --histories $(SHARDS) --processes $(PROCESSES) --ledger $(LEDGER) $(ARGS)

replay: $(VENV)/.dev $(VENV)/.bytecode ## HISTORIES=40 of a group shard, cleaned and crashed, each loaded again; five times as many at length
	KOHORT_REPLAY_HISTORIES=$(HISTORIES) $(BIN)/python -m pytest $(UNTIMED) tests/replay $(ARGS)

.PHONY: mutants
mutants: $(VENV)/.mutants ## SAMPLE=200 small faults a room (0 for all), drawn by SEED=1: how many do its tests find? ARGS="storage" for one
	@$(BIN)/python -m tools.mutants --sample $(SAMPLE) --seed $(SEED) --at-least $(AT_LEAST) --processes $(PROCESSES) $(ARGS)

.PHONY: mutants-quick
mutants-quick: $(VENV)/.mutants ## a few of two small rooms, always the same ones: a step of CI; ARGS="--sample 40 storage" for more
	@$(BIN)/python -m tools.mutants.quick --processes $(PROCESSES) $(ARGS)

judge: $(VENV)/.dev $(VENV)/.bytecode ## every scenario against Apache Kafka and against Kohort, a scorecard; ARGS="'J*' S03" for a part
	$(BIN)/python -m tests.reference.judge $(ARGS)

incidents: $(VENV)/.dev ## incidents played by real clients, and how right `why` is about them; ARGS="'killed*'" for a part
	$(BIN)/python -m tests.incidents $(ARGS)

format: $(VENV)/.dev ## format and mend what the linter can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

setup: $(VENV)/.dev ## install everything that tests and checks need

judge-random: $(VENV)/.dev ## random histories of raw requests against both; ARGS="transactions 0-499", else "consumer 0-99"
	$(BIN)/python -m tests.reference.judge.random_run $(or $(ARGS),consumer 0-99)

lock: $(VENV)/.dev ## write requirements.lock anew: the newest of everything that pyproject.toml allows
	{ echo "# The versions that make installs. Written by 'make lock' from pyproject.toml; not by hand."; \
	  $(BIN)/uv pip compile --universal --python-version 3.11 --all-extras --upgrade --no-header --no-annotate -q pyproject.toml; \
	} > requirements.lock.new && mv requirements.lock.new requirements.lock

# Two makes that are started together would write into one $(VENV): each waits for what the other is installing. Without
# util-linux, as on macOS, or where this directory cannot be locked, nobody waits.
ALONE = $(shell flock --nonblock --conflict-exit-code 0 . true 2> /dev/null && echo flock .)
PIP_INSTALL = $(ALONE) $(BIN)/python -m pip install -q --disable-pip-version-check -c requirements.lock

$(VENV)/.run: pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Kohort needs Python 3.11 or newer as $(PYTHON); name another with: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2> /dev/null \
	  || { echo "$(PYTHON) cannot make virtual environments. On Debian and Ubuntu: apt-get install python3-venv"; exit 1; }
	$(ALONE) $(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) -e '.[cli]'
	@touch $@

# Half of a start is compiling, wherever Python may not keep what it has compiled (PYTHONDONTWRITEBYTECODE, a read-only disk).
$(VENV)/.bytecode: $(VENV)/.run $(shell find kohort protocol coordinator storage broker cli pipeline -name '*.py')
	@$(BIN)/python -m compileall -q kohort protocol coordinator storage broker cli pipeline || true
	@touch $@

# Spark starts four Python processes for a first row, each of which would compile all of this anew; pip leaves it so, too.
$(VENV)/.dev: pyproject.toml requirements.lock $(VENV)/.run
	$(PIP_INSTALL) -e '.[test,check]'
	@$(BIN)/python -m compileall -q $(foreach one,pyspark py4j numpy pyarrow pandas,$(VENV)/lib/python*/site-packages/$(one)) || true
	@touch $@

$(VENV)/.mutants: $(VENV)/.dev
	$(PIP_INSTALL) -e '.[mutants]'
	@touch $@

clean: ## remove what was installed and built; ./data stays
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis benchmarks/.build

.PHONY: compiled test-compiled
compiled: $(VENV)/.dev ## the hot path as native code, in build/compiled, which `make run` takes from then on; docs/compiled.md
	@$(BIN)/python -m tools.compiled $(ARGS)

# The whole suite but for the pipeline, whose work is Spark's; for images and wheels, which are built from the sources
# whatever tree the tests run on; and for what not_native.txt names: it puts another function in a module's place, which
# native code does not see, or asks for what only Python's functions and values have.
NOT_NATIVE := tests/pipeline tests/compose tests/install
test-compiled: $(VENV)/.dev ## make native code and run the tests on it; ARGS="tests/broker" for a part
	@$(BIN)/python -m tools.compiled
	$(if $(CI),tools/shells &&) tree=$$(realpath build/compiled) && PYTHONPATH=$$tree \
	  $(BIN)/python -m pytest $(WORKERS) -o pythonpath="$$tree ." -m "not long" \
	  @tests/compiled/not_native.txt $(NOT_NATIVE:%=--ignore=%) $(ARGS)

.PHONY: wheels
wheels: $(VENV)/.dev ## a pure wheel and, where there is a C compiler, a compiled and trained one for this platform and Python, into dist/
	@$(BIN)/python -m build --wheel --no-isolation --outdir dist .
	@if command -v $${CC:-cc} > /dev/null; then KOHORT_COMPILED=trained $(BIN)/python -m build --wheel --no-isolation --outdir dist .; \
	  else echo "there is no C compiler (cc): only the pure wheel, which works everywhere"; fi

spark-package: $(VENV)/.dev ## a wheel for the driver and a zip for the executors of a Spark cluster, into dist/
	@$(BIN)/python tools/spark_package.py dist

help: ## this list
	@grep -hE '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 12
