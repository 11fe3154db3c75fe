# `make demo` and `make test` do everything on a fresh machine with Python 3.10+ and make.
PYTHON ?= python3
BIN := .venv/bin

# Without an NVIDIA GPU, torch and torchvision come as CPU builds (0.2 GB instead of several): of
# equal versions pip prefers the `+cpu` ones of PyTorch's index. Where that index cannot be reached
# pip goes on, after one retry, with what its other sources have. With a GPU, PyPI's builds serve.
TORCH ?= torch==2.13.0 torchvision==0.28.0
TORCH_CPU := --extra-index-url https://download.pytorch.org/whl/cpu --retries 1 --timeout 15

.PHONY: demo test test-slow browser check hooks results bench setup clean

demo: setup
	$(BIN)/onestyle demo

# A process a core, and a thread each: they do not wait for each other.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest -n auto

test: setup
	$(PYTEST) -m "not slow"

test-slow: setup
	$(PYTEST) -m slow || [ $$? -eq 5 ]  # 5: there is no slow test

# The report is tested in a real Chromium: any that is there, else Debian's, which needs root.
browser:
	@command -v $(or $(ONESTYLE_CHROMIUM),chromium) \
	|| { apt-get update && apt-get install -y --no-install-recommends chromium fonts-liberation; } \
	|| echo "no Chromium: the report's tests in a browser will be skipped"

check: setup
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright

hooks: setup
	$(BIN)/pre-commit install

results: setup
	$(BIN)/python results/write.py

bench: setup
	for file in benchmarks/*_speed.py; do $(BIN)/python $$file || exit 1; done

setup: .venv/ready

.venv/ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 10) or sys.exit("onestyle needs Python 3.10 \
	or newer, $(PYTHON) is " + sys.version.split()[0] + "; name another: make setup PYTHON=python3.12")'
	[ -x $(BIN)/pip ] || $(PYTHON) -m venv .venv
	$(BIN)/python -c "import torch" 2>/dev/null || nvidia-smi -L 2>/dev/null \
	|| $(BIN)/pip install --no-deps $(TORCH_CPU) $(TORCH)
	$(BIN)/pip install --editable ".[train,dev]"
	@touch $@

clean:
	rm -rf preview.png report.html dist .pytest_cache .ruff_cache .hypothesis
	find . -path ./.venv -prune -o -name __pycache__ -prune -exec rm -rf {} +
