# Works with GNU make 3.81 (macOS) and newer. `make` prints what there is.
.DEFAULT_GOAL := help

PORT ?= 8888
# none: start the server, open no browser.
BROWSER ?=
PYTEST_ARGS ?=
# Processes that share the tests; each of them computes on one core, and waits for pages and other processes in between.
JOBS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
# Handed to scripts/setup.sh.
PYTHON ?=
PIP_ARGS ?=

FXOPT := .venv/bin/fxopt

.PHONY: help setup lab instructor site test test-long fuzz torture notebooks clean

help:
	@echo "make lab                         set up, fill workspace/ and open JupyterLab at the start page"
	@echo "make lab PORT=9000 BROWSER=none  the same on a server: another port, no browser"
	@echo "make instructor                  the whole course in JupyterLab, with nbgrader's form grader (PORT, BROWSER)"
	@echo "make setup                       create .venv and install everything (fast when nothing changed)"
	@echo "make test                        set up, then run every test (JOBS=processes; PYTEST_ARGS=... goes to pytest)"
	@echo "make test-long                   every answer and every mutant of every right answer, through the graders (hours),"
	@echo "                                 and the other tests of which \`make test\` tries a part or nothing"
	@echo "make fuzz N=20000                try each preset on that many random graph programs, other ones each time"
	@echo "make torture N=2000 KILLS=100    call every operator that a learner's graph may call so often with hostile arguments;"
	@echo "                                 grade 60 submissions while so many of the processes that grade are killed;"
	@echo "                                 grade a class of 1,000 in one run (STUDENTS=1000);"
	@echo "                                 damaged notebooks, forged evidence, hidden cases of many students"
	@echo "make notebooks                   build curriculum/ and the executed solutions from solutions/*/*.py"
	@echo "make site                        the course as a static website in site/, to open or to put on any server"
	@echo "make clean                       remove .venv and caches; workspace/ and course/ stay"
	@echo ""
	@echo "PYTHON=python3.12 chooses the Python of .venv; PIP_ARGS=... goes to pip."

setup:
	@PYTHON='$(PYTHON)' PIP_ARGS='$(PIP_ARGS)' bash scripts/setup.sh

lab: setup
	@$(FXOPT) lab --port '$(PORT)' $(if $(filter none,$(BROWSER)),--no-browser)

instructor: setup
	@$(FXOPT) lab --instructor --port '$(PORT)' $(if $(filter none,$(BROWSER)),--no-browser)

test: setup
	@OMP_NUM_THREADS=1 .venv/bin/python -m pytest -n '$(JOBS)' $(PYTEST_ARGS)

test-long: setup
	@FXOPT_LONG=1 OMP_NUM_THREADS=1 .venv/bin/python -m pytest -n '$(JOBS)' -m 'long or sampled' $(PYTEST_ARGS)

fuzz: setup
	@FXOPT_FUZZ=$(or $(N),20000) OMP_NUM_THREADS=1 .venv/bin/python -m pytest -n '$(JOBS)' --timeout=0 tests/fuzz

torture: setup
	@OMP_NUM_THREADS=1 .venv/bin/python -W ignore tests/attacks/operator_fuzzer.py --calls $(or $(N),2000)
	@OMP_NUM_THREADS=1 .venv/bin/python -W ignore tests/attacks/kills.py --kills $(or $(KILLS),100)
	@OMP_NUM_THREADS=1 .venv/bin/python -W ignore tests/attacks/kills.py --kills $(or $(KILLS),100) --postgresql
	@OMP_NUM_THREADS=1 .venv/bin/python -W ignore tests/attacks/large_class.py --students $(or $(STUDENTS),1000)
	@OMP_NUM_THREADS=1 .venv/bin/python -W ignore tests/attacks/many_students.py --students 20
	@OMP_NUM_THREADS=1 .venv/bin/python -W ignore tests/attacks/forged_values.py
	@OMP_NUM_THREADS=1 FXOPT_TORTURE=3000 .venv/bin/python -m pytest -q --timeout=0 tests/attacks/test_damaged_notebooks.py tests/attacks/test_fuzzed_evidence.py

notebooks: setup
	@$(FXOPT) release

site: setup
	@$(FXOPT) site --out site

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
