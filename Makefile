# Everything sets itself up: a fresh clone needs python3 (3.11 or newer), pip, git, node and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
NODE   := build/node
# Real agents: two that every test run talks to, and more for interop and bench.
PEERS  := build/peers
MORE   := build/more-peers
# Tests that run at the same time; those of one file run one after the other. 0: all of them.
AT_ONCE ?= 4
# What a test or a child of ours may see of this machine: no keys, no model variables.
CLEAN  := env -i PATH="$(CURDIR)/$(BIN):$$PATH" HOME="$$HOME" LANG=C.UTF-8 TERM="$${TERM:-dumb}" CI="$$CI" \
          NODE_EXTRA_CA_CERTS="$$NODE_EXTRA_CA_CERTS" SSL_CERT_FILE="$$SSL_CERT_FILE"
# What a test run leaves out without being told.
NORMAL := not stress and not long

.PHONY: help run test sandbox check format bench interop stress pictures lock clean
.DEFAULT_GOAL := help

help: ## show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-9s %s\n", $$1, $$2}'

$(VENV)/.base:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Quarterdeck needs Python 3.11 or newer; say which with: make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.run: $(VENV)/.base requirements/run.lock pyproject.toml
	$(BIN)/pip install -q --disable-pip-version-check --require-hashes -r requirements/run.lock
	$(BIN)/pip install -q --disable-pip-version-check --no-deps -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.run requirements/dev.lock
	$(BIN)/pip install -q --disable-pip-version-check --require-hashes -r requirements/dev.lock
	@touch $@

$(NODE)/.done: tools/package.json tools/package-lock.json
	@mkdir -p $(NODE)
	@cp tools/package.json tools/package-lock.json $(NODE)/
	cd $(NODE) && npm ci --silent --no-audit --no-fund
	@touch $@

build/%/.done: tools/%/package.json tools/%/package-lock.json
	@mkdir -p $(@D)
	@cp $^ $(@D)/
	@# Not "npm ci": it wants every platform's package in the lock, also those that are not to be had.
	cd $(@D) && npm install --silent --no-audit --no-fund --no-save
	@touch $@

# Another emulator and another workbench, in environments of their own; compared with ours.
build/pyte/.done:
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install -q --disable-pip-version-check pyte==0.8.2
	@touch $@

# A proxy, to compare the meter with.
build/mitmproxy/.done:
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install -q --disable-pip-version-check mitmproxy==11.0.2
	@touch $@

# What serves a workbench to browsers without a page of its own; compared with ours.
build/textual-serve/.done:
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install -q --disable-pip-version-check textual-serve==1.1.3
	@touch $@

build/patchfeld/.done:
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install -q --disable-pip-version-check patchfeld==0.3.1
	@touch $@

# An agent that comes from PyPI; the live tests talk with it where it is there.
build/aider/.done:
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install -q --disable-pip-version-check aider-chat==0.86.2
	@touch $@

# Needs Python 3.12 or newer: make build/vibe/.done PYTHON=/path/to/python3.12
build/vibe/.done:
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install -q --disable-pip-version-check mistral-vibe==3.0.2
	@touch $@

run: $(VENV)/.run ## set up and open the workbench
	@$(BIN)/quarterdeck

test: $(VENV)/.dev $(NODE)/.done $(PEERS)/.done build/axe/.done ## set up and run every test
	$(CLEAN) $(BIN)/python -m pytest -m "$(NORMAL)" -n $(AT_ONCE) --dist loadfile $(ARGS)

sandbox: $(VENV)/.dev $(NODE)/.done ## the tests of the sandbox, with each kind of it in turn
	$(CLEAN) $(BIN)/python -m tools.sandbox_turns $(OTHERS) -n $(AT_ONCE) --dist loadfile $(ARGS)

check: $(VENV)/.dev $(NODE)/.done ## format, lint, types, imports, dependencies
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(NODE)/node_modules/.bin/pyright
	$(NODE)/node_modules/.bin/tsc -p tools/jsconfig.json
	$(BIN)/lint-imports
	$(BIN)/deptry src

format: $(VENV)/.dev ## format, and fix what the linter can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.dev $(NODE)/.done $(PEERS)/.done $(MORE)/.done build/patchfeld/.done build/pyte/.done build/mitmproxy/.done build/textual-serve/.done ## ratios against peers, in one run
	$(CLEAN) $(BIN)/python -m bench $(ARGS)

interop: $(VENV)/.dev $(NODE)/.done $(PEERS)/.done $(MORE)/.done ## talk with agents and clients that we did not write
	$(CLEAN) $(BIN)/python -m pytest -m interop $(ARGS)

stress: $(VENV)/.dev $(NODE)/.done $(PEERS)/.done ## every test in another order; hundreds of kills, soaks, long fuzzing
	$(CLEAN) $(BIN)/python -m pytest -p randomly -m "$(NORMAL)" -n $(AT_ONCE) --dist loadfile $(ARGS)
	$(CLEAN) $(BIN)/python -m pytest -m "$(NORMAL)" --replay-sessions tests/agent/test_turn.py tests/agent/test_session.py
	$(CLEAN) QUARTERDECK_STRESS=1 $(BIN)/python -m pytest -m "stress" --timeout 900 $(ARGS)

pictures: $(VENV)/.dev ## make the pictures of docs/pictures anew, from real runs
	$(CLEAN) $(BIN)/python -m tools.make_pictures $(ARGS)

lock: ## resolve the locks anew from pyproject.toml (needs uv)
	uv pip compile pyproject.toml -q --universal --generate-hashes --python-version 3.11 \
	  --no-emit-index-url --custom-compile-command "make lock" -o requirements/run.lock
	uv pip compile pyproject.toml -q --group dev --universal --generate-hashes --python-version 3.11 \
	  --no-emit-index-url --custom-compile-command "make lock" -c requirements/run.lock -o requirements/dev.lock

clean: ## forget what was set up
	rm -rf $(VENV) build
