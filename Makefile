# One-line targets; continuous integration calls the same ones.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin

MINUTES ?= 20

PRETTIER := npx --yes --package prettier@3 prettier --config tests/explain/page/prettier.json --log-level warn
SCRIPTS := "glassformer/explain/page/assets/**/*.{js,css}"

.PHONY: help demo check fix test slow types browser serving marian torture docs learn notebooks site bench mutants gpu

help:  ## show the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' Makefile

$(BIN)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	@echo 'Installing glassformer and PyTorch into $(VENV); pip says how far it is:'
	$(BIN)/pip install --editable '.[fast]'
	@touch $@

$(BIN)/.ready: $(BIN)/.installed
	$(BIN)/pip install --quiet --editable '.[dev]'
	@touch $@

demo: $(BIN)/.installed  ## set up, translate, look inside, train on dates: three minutes
	$(BIN)/glassformer demo

# Compiling takes each process seconds: what is compiled is kept, even where the environment forbids it.
test: $(BIN)/.ready  ## set up and run the tests
	env -u PYTHONDONTWRITEBYTECODE $(BIN)/pytest -m "not slow and not browser and not serving" --numprocesses auto --dist loadfile --durations 20

$(BIN)/.bench: $(BIN)/.ready
	$(BIN)/pip install --quiet --editable '.[dev,bench]'
	@touch $@

slow: $(BIN)/.bench  ## the tests that train, start processes or sample a large grid; FULL=1: the whole grids, every benchmark
	$(BIN)/pytest -m "slow and not browser" --numprocesses auto --durations 20

types:  ## the types of the page's JavaScript, by TypeScript, its mistakes, by ESLint, and its format, by Prettier, from npm
	npx --yes --package typescript@5 tsc --project tests/explain/page/jsconfig.json
	npx --yes --package eslint@9 eslint --config tests/explain/page/eslint.config.js glassformer/explain/page/assets
	$(PRETTIER) --check $(SCRIPTS)

browser: $(BIN)/.ready  ## the tests of the page in a headless Chromium
	command -v chromium > /dev/null || apt-get install --yes --no-install-recommends chromium
	$(BIN)/pytest -m browser --numprocesses 2

$(BIN)/.serving: $(BIN)/.ready
	$(BIN)/pip install --quiet --editable '.[dev,serving-test]'
	@touch $@

serving: $(BIN)/.serving  ## the server: programs of others that speak to it, and requests that nobody foresaw
	$(BIN)/pytest -m serving --numprocesses 0
	$(BIN)/python tests/serving/fuzz.py --requests 1000

$(VENV)-marian/bin/pymarian:
	$(PYTHON) -m venv $(VENV)-marian
	$(VENV)-marian/bin/pip install --quiet pymarian==1.12.42

marian: $(BIN)/.ready $(VENV)-marian/bin/pymarian  ## ask Marian itself about models in and out; 604 MB from PyPI
	MARIAN=$(VENV)-marian/bin/pymarian $(BIN)/pytest tests/interop/test_marian_itself.py

torture: $(BIN)/.ready  ## kill, damage, starve and mislead it; MINUTES=20, and a table at the end
	$(BIN)/python tests/torture --minutes $(MINUTES)

check: $(BIN)/.ready  ## format, lint, types, and the budget of lines
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python tests/budget.py

fix: $(BIN)/.ready  ## format, and correct what can be corrected; the page's JavaScript and CSS where npx is there
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	if command -v npx > /dev/null; then $(PRETTIER) --write $(SCRIPTS); fi

docs: $(BIN)/.ready  ## check that the generated pages, the lessons' pages and the links are current
	$(BIN)/python docs/generate.py --check
	$(BIN)/python docs/learn/render.py --check

$(BIN)/.learn: $(BIN)/.ready
	$(BIN)/pip install --quiet --editable '.[dev,learn]'
	@touch $@

learn: $(BIN)/.learn  ## carry out the lessons and write their pages
	$(BIN)/python docs/learn/render.py

notebooks: $(BIN)/.learn  ## write the lessons as notebooks to build/notebooks
	$(BIN)/python docs/learn/render.py --notebooks build/notebooks

$(BIN)/.site: $(BIN)/.ready
	$(BIN)/pip install --quiet --editable '.[dev,site]'
	@touch $@

site: $(BIN)/.site  ## build the site to build/site, with the living page as try.html; a warning is an error
	$(BIN)/python docs/site/build.py
	node docs/site/search.js build/site/_static/sections.js

bench: $(BIN)/.ready  ## measure idle taps, a trace and a training step
	$(BIN)/python benchmarks/idle_taps.py
	$(BIN)/python benchmarks/trace_cost.py
	$(BIN)/python benchmarks/training_step.py

mutants: $(BIN)/.ready  ## how many small changes of the source the fast tests find; continues where it stopped, for MINUTES=20
	$(BIN)/python benchmarks/mutants.py --minutes $(MINUTES)

gpu: $(BIN)/.ready  ## hold a GPU to the CPU's results and measure it; continues where it stopped
	PYTHONPATH=. $(BIN)/python benchmarks/gpu.py --minutes 8
