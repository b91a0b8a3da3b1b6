# make run: the demo sweep, its table and its picture.   make test: all tests.   make quick: those that an edit of one
# rule or attack needs.   All set up .venv first.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
DEMO := results/demo
QUICK := $(addprefix tests/,test_aggregators.py test_attacks.py test_field_rules.py test_field_attacks.py test_catalogue.py \
           test_configs.py::test_the_keys_of_an_option_are_the_fields_of_what_it_makes \
           test_imports.py::test_rules_know_their_base_and_numerics_and_never_each_other)

.PHONY: run test quick lint catalogue agreement architecture index arena facts site bench clean

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --no-compile --constraint constraints.txt --editable '.[dev]'
	$(BIN)/pip install --quiet --no-compile --constraint constraints.txt --no-deps byzfl dp-accounting   # for tests; not what they need
	$(BIN)/python -m compileall -qq -j 0 -x /tests/ $(VENV)/lib || true   # pip would on one core; some files are templates
	touch $@

run: $(VENV)/.installed
	$(BIN)/robustfl-bench -m +experiment=demo hydra/launcher=processes results_dir=$(DEMO)
	$(BIN)/robustfl-results table --results-dir $(DEMO) --value final_accuracy --format csv > $(DEMO)/accuracy.csv
	$(BIN)/robustfl-results table --results-dir $(DEMO) --value mrd --format csv > $(DEMO)/mrd.csv
	$(BIN)/robustfl-results plot accuracy --results-dir $(DEMO) --output $(DEMO)/accuracy.png
	@echo
	$(BIN)/robustfl-results table --results-dir $(DEMO) --value final_accuracy --value mrd
	@echo; echo "written: $(DEMO)/accuracy.csv $(DEMO)/mrd.csv $(DEMO)/accuracy.png $(DEMO)/runs/*/metrics.csv"

test: $(VENV)/.installed
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal

quick: $(VENV)/.installed
	$(BIN)/ruff check .
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -m "not slow" $(QUICK)

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

catalogue: $(VENV)/.installed
	$(BIN)/python scripts/generators/catalogue.py

agreement: $(VENV)/.installed
	$(BIN)/python scripts/generators/agreement.py

facts: $(VENV)/.installed
	$(BIN)/python -m scripts.checks.facts

architecture: $(VENV)/.installed
	$(BIN)/python scripts/generators/architecture.py

index: $(VENV)/.installed
	$(BIN)/python scripts/generators/index.py

arena: $(VENV)/.installed
	$(BIN)/python -m scripts.generators.arena

site: $(VENV)/.installed
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[site]'
	$(BIN)/python -m scripts.generators.site_pages build/pages
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	$(BIN)/python scripts/checks/site_links.py build/site

bench: $(VENV)/.installed
	$(BIN)/python scripts/benches/bench_aggregators.py
	$(BIN)/python scripts/benches/bench_rounds.py
	$(BIN)/python scripts/benches/bench_local_sgd.py
	$(BIN)/python scripts/benches/bench_models.py
	$(BIN)/python scripts/benches/bench_scaling.py

clean:
	rm -rf $(VENV) $(DEMO) build dist
