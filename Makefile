# Two commands do everything on a fresh machine: `make run` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# PORT=9192 DATA=/tmp/kohort make run
PORT ?= 9092
DATA ?= ./data

.PHONY: run test test-all check format setup clean

run: $(VENV)/.run ## install what is missing, start the broker on 127.0.0.1:9092 with its log in ./data
	@$(BIN)/python -m broker serve --override listeners=PLAINTEXT://127.0.0.1:$(PORT) --override log.dirs=$(DATA)

# In CI the slow tests run too (CI=true); `make test-all` is the same by hand.
test: $(VENV)/.dev ## install what is missing, run the tests
	$(BIN)/python -m pytest -n 2 --dist loadgroup $(if $(CI),,-m "not slow") $(ARGS)

test-all: $(VENV)/.dev ## the slow tests too
	CI=$(CI) $(BIN)/python -m pytest -n 2 --dist loadgroup $(ARGS)

check: $(VENV)/.dev ## format, lint, types, room contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

setup: $(VENV)/.dev

$(VENV)/.run: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check -e .
	@touch $@

$(VENV)/.dev: pyproject.toml $(VENV)/.run
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[test,check]'
	@touch $@

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache
