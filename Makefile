# make demo     the whole way through once: broker, producers, Spark, a plot (about two minutes)
# make test     style, types, import contracts, tests; all that it needs comes from PyPI
# make docs     the documentation as a site: build/site/index.html
# make quick    the part of the tests that shows whether a Python serves: PYTHON=python3.13 VENV=.venv-3.13
#               LESS=replication: without these of its rooms
# make elsewhere  what reads the clock, the folder, the user or the locale, where these are others (four minutes);
#               EACH=1: all of `make quick` in each such world by itself; WORLDS=in-eight-days,…: tests/elsewhere.py
# make interpreted  what requests pass runs from its .py files while one works on them; `make test` compiles it again
# make fuzz     the tests of random inputs with inputs nobody has seen, FUZZ_ROUNDS (10) times over; SEED=… again
# make kills    Spark's exactly-once writes, KILLS (100) times killed at any step: is each row there once?
#               CLUSTER=1: on a Spark cluster, whose executors and machines are killed too
# make pyspark  a selection of the Spark tests on each further PySpark that README names (PYSPARKS), each in a venv of its own
# make soak     a broker under everything at once for SOAK_MINUTES (60): is it as it was at the end?
# make histories transactions under crashes, judged, for SOAK_MINUTES (60): was every promise kept?
# make faults   brokers of a cluster killed, paused, cut off …, their ZooKeeper too (15 minutes): docs/fault_tests.md
#               ends with all faults at random for FAULT_MINUTES (3); SEED=… again; NOTE=… of the machine
# make simulate clusters over virtual networks, disks and clocks, SEEDS (1000) of them from SEED on: docs/simulation.md
# make wheels   the distributions of a release, built and checked, in dist: docs/releasing.md (WHEELS='--python 3.12')
# make profile  where a broker's time goes: a flame graph, and the microseconds of each step of a request
# make instructions  instructions and look-ups of each kind of request, under valgrind, beside those that are kept
#               (ONLY=produce-1,…); RENEW=1 keeps them: benchmarks/instructions/INSTRUCTIONS.md
# make bench    the brokers beside Apache Kafka and kfake under one load: benchmarks/RESULTS.md (ONLY=section,…;
#               ONLY=security: all of security-…)
# make faulted-clients  each client through each fault, thrice, writes docs/faults_and_clients.md anew (ten minutes);
#               FAULTED='--client aiokafka --case commit --add': some cells, and what stands there stays
# make zookeeper  a ZooKeeper in the foreground, empty, on 127.0.0.1:2181 (PORT=…), from the jars of PySpark
# make spark-cluster  Spark's own cluster in the foreground, a master (PORT=7077) and two workers: docs/spark_cluster.md
# make interop  real clients, brokers and connectors of other ecosystems (Maven, npm, Go where present), of each the
#               oldest and the newest release, and some between
# make compatibility  the same with each release, and with the suites of other clients while brokers are killed;
#               docs/compatibility.md is written anew from what they did

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
SOAK_MINUTES ?= 60
FUZZ_ROUNDS ?= 10
FAULT_MINUTES ?= 3
SEEDS ?= $(if $(SEED),1,1000)
KILLS ?= 100
SRC    := src tests examples benchmarks docs/conf.py docs/navigation.py packaging setup.py
# What requests pass is compiled from the same .py files (setup.py), which begin with `# compiled: mypyc`.
WALK   := $(shell grep -rlx --include='*.py' '. compiled: mypyc' src/odradek)
# The kernel's parts, and what they share.
KERNEL := $(shell find src/odradek -name '_*.pyx' -o -name '_*.pxd')
BUILT  := pyproject.toml setup.py constraints.txt $(KERNEL) $(WALK)
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test docs quick elsewhere pyspark lint types contracts unit fuzz kills soak histories faults simulate profile instructions bench wheels zookeeper spark-cluster interop compatibility faulted-clients interpreted format clean

help:
	@sed -n '/^$$/q; s/^# //p' Makefile

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# The two stamps differ in what is installed: the demo needs no test tools.
$(VENV)/.spark: $(BIN)/python $(BUILT)
	$(PIP) -e '.[spark]'
	@touch $@

$(VENV)/.dev: $(BIN)/python $(BUILT)
	$(PIP) -e '.[dev]'
	@touch $@ $(VENV)/.spark

$(VENV)/.docs: $(BIN)/python $(BUILT)
	$(PIP) -e '.[docs]'
	@touch $@

# What `make quick` needs; without Spark and the tools of `make lint`.
$(VENV)/.quick: $(BIN)/python $(BUILT)
	$(PIP) -e '.[arrow,test]'
	@touch $@

# The tests start some thousand Pythons: without bytecode each compiles what it imports, and every worker of pytest the
# tests as well.
unexport PYTHONDONTWRITEBYTECODE

demo: $(VENV)/.spark
	@$(BIN)/python -m odradek.demo $(DEMO)

# The tests of a file share brokers and sessions, and stay with one worker. More than half of their time they wait for a
# process, a disk or Spark: four workers share two cores. tests/conftest.py has the longest files begin first.
IN_ORDER := --dist loadfile --no-loadscope-reorder
SHARED := -n 4 $(IN_ORDER)
# Beside other runs.
BESIDE := -n 3 $(IN_ORDER)

# Side by side: a part of the tests' time is spent waiting.
test: $(VENV)/.dev
	@$(MAKE) --no-print-directory -j4 lint types contracts unit

# Formats, logs, coordinators and clients; sockets on both event loops; a broker as a process, and its kernel.
QUICK := wire records log coordinators cluster replication util client testing/test_broker.py \
	$(addprefix broker/,network/test_connection.py network/test_connection_limits.py network/test_sending.py \
	process/test_watchdog.py process/test_process.py handlers/test_produce.py fetch/test_fetch.py groups/test_groups_wire.py \
	requests/test_compiled_walk.py requests/test_produce_road.py apis/test_no_long_stretch.py)
PARTS := $(subst /,.,$(patsubst src/%.pyx,%,$(filter %.pyx,$(KERNEL))))

quick: $(VENV)/.quick
	$(foreach part,$(PARTS),$(BIN)/python -c 'import $(part)' &&) true
	$(BIN)/python tests/again.py $(patsubst %,tests/%,$(filter-out $(LESS),$(QUICK))) $(BESIDE) $(PYTEST)

# A link that leads nowhere, a page outside the navigation, or anything loaded from another site fails.
docs: $(VENV)/.docs
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --jobs auto -c docs . build/site $(DOCS)
	@echo "$(CURDIR)/build/site/index.html"

# What reads the clock, the folder, the user, or the locale: a few seconds of each kind.
ELSEWHERE := $(addprefix broker/,apis/test_recorded_clients.py process/test_watchdog.py process/test_logging.py \
	fetch/test_fetch.py handlers/test_produce.py transactions/test_transactions.py groups/test_groups_offsets.py \
	network/test_tls.py network/test_dynamic_key_stores.py config/test_config.py) \
	$(addprefix log/,folders/test_data_folder.py folders/test_golden_folders.py test_dump_log.py cleaner/test_cleaner.py \
	segments/test_segment_lives.py) sasl client/test_oauth_live.py \
	client/test_first_day.py client/test_consumer_live.py cli/test_consumer_groups.py cli/test_transactions.py \
	cli/test_small_tools.py cli/test_topics.py testing/test_broker.py spark/sessions/test_java.py

# Shifts the clock of whole processes; without a compiler those worlds are left out, by name.
$(VENV)/.elsewhere: $(VENV)/.dev
	$(PIP) libfaketime || true
	@touch $@

elsewhere: $(VENV)/.elsewhere
	$(BIN)/python tests/elsewhere.py $(if $(EACH),,--together) $(TURN:%=--turn %) $(WORLDS:%=--worlds %) \
		$(if $(EACH),$(QUICK:%=tests/%),$(ELSEWHERE:%=tests/%) -m 'not slow and not spark') $(BESIDE) $(PYTEST)

# Further releases of PySpark, the newest patch of each, and the tests that meet what changes between them: types, planning,
# limits, writes, progress. Each has a venv of its own in front of all else that $(VENV) has.
PYSPARKS := 4.1.4 4.2.1
PYSPARK_TESTS := test_schema.py test_tables.py formats/test_single_values.py formats/test_typed_read.py formats/test_typed_write.py \
	reading/test_batch_read.py reading/test_group_offsets.py reading/test_stream.py reading/test_stream_reader.py \
	watching writing/test_batch_write.py writing/test_exactly_once.py

.venv-pyspark-%/.there: $(VENV)/.dev
	$(BIN)/python -m venv --clear --without-pip $(@D)
	site=$$($(@D)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') && \
		$(BIN)/python -c 'import sysconfig; print("import site; site.addsitedir(%r)" % sysconfig.get_path("purelib"))' >$$site/others.pth && \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target $$site pyspark==$*
	@touch $@

# Else make takes the stamps for something in between, and away.
.PRECIOUS: .venv-pyspark-%/.there

pyspark: $(PYSPARKS:%=pyspark-%)

pyspark-%: .venv-pyspark-%/.there
	.venv-pyspark-$*/bin/python tests/again.py $(PYSPARK_TESTS:%=tests/spark/%) \
		-m 'not slow' -k 'not any_bytes and not cannot_be_written' -n 0 $(PYTEST)

lint: $(VENV)/.dev
	$(BIN)/ruff check $(SRC)
	$(BIN)/ruff format --check $(SRC)

types: $(VENV)/.dev
	$(BIN)/mypy

contracts: $(VENV)/.dev
	$(BIN)/lint-imports

unit: $(VENV)/.dev
	$(BIN)/python tests/again.py --ignore=tests/interop $(SHARED) $(PYTEST)

fuzz: $(VENV)/.dev
	for round in $$(seq $(FUZZ_ROUNDS)); do \
		seed=$${SEED:-$$($(BIN)/python -c 'import secrets; print(secrets.randbits(32))')}; \
		echo "ODRADEK_FUZZ_SEED=$$seed"; \
		ODRADEK_FUZZ_SEED=$$seed HYPOTHESIS_PROFILE=random $(BIN)/pytest --ignore=tests/interop \
			-m 'hypothesis or fuzz' --hypothesis-seed=$$seed -n 2 -q $(PYTEST) || { echo "again: make fuzz SEED=$$seed"; exit 1; }; done

kills: $(VENV)/.dev
	$(BIN)/python tests/spark/exactly_once_kills.py --kills $(KILLS) $(SEED:%=--seed %) $(if $(CLUSTER),--cluster)

soak: $(VENV)/.dev
	$(BIN)/python -m benchmarks.soak --minutes $(SOAK_MINUTES) $(SOAK)

histories: $(VENV)/.dev
	$(BIN)/python -m odradek.testing.workload --minutes $(SOAK_MINUTES) $(HISTORIES)

faults: $(VENV)/.dev
	mkdir -p build && rm -f build/fault_tests.jsonl
	ODRADEK_FAULT_ROWS=build/fault_tests.jsonl \
		ODRADEK_FAULT_MINUTES=$(FAULT_MINUTES) ODRADEK_FAULT_SEED=$(or $(SEED),0) \
		$(BIN)/pytest -m '' tests/scenarios/faults -n 2 $(IN_ORDER) $(PYTEST)
	PYTHONPATH=tests $(BIN)/python -m scenarios.faults.page build/fault_tests.jsonl docs/fault_tests.md '$(NOTE)'

simulate: $(VENV)/.dev
	PYTHONPATH=tests $(BIN)/python -m simulation --seed $(or $(SEED),1) --seeds $(SEEDS) $(FAULTS:%=--faults %) $(SIMULATION)

profile: $(VENV)/.dev
	$(BIN)/python -m benchmarks.profiling $(PROFILE)

instructions: $(VENV)/.dev
	$(BIN)/python -m benchmarks.instructions $(ONLY:%=--only %) $(if $(RENEW),--renew)

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks --only '$(ONLY)' $(BENCH)

# With an environment of its own, so that nothing of the tests' is beside it.
.venv-wheels/.there: packaging/requirements.txt
	$(PYTHON) -m venv .venv-wheels
	.venv-wheels/bin/python -m pip install --quiet --disable-pip-version-check -r packaging/requirements.txt
	@touch $@

wheels: .venv-wheels/.there
	.venv-wheels/bin/python packaging/wheels.py $(WHEELS)

zookeeper: $(VENV)/.dev
	@$(BIN)/python tests/zookeeper_server.py $(PORT)

spark-cluster: $(VENV)/.spark
	@$(BIN)/python tests/spark_cluster.py $(PORT)

# The package for Kerberos is compiled here: without libkrb5's headers its tests are skipped, by name.
interop: $(VENV)/.dev
	$(PIP) gssapi || true
	rm -f build/compatibility.json
	$(BIN)/python tests/again.py tests/interop $(SHARED) --compatibility build/compatibility.md $(PYTEST)

# With the suites that take minutes, and those while brokers are killed.
compatibility: PYTEST += -m interop
compatibility: interop
	cp build/compatibility.md docs/compatibility.md

faulted-clients: $(VENV)/.dev
	PYTHONPATH=tests $(BIN)/python -W ignore -m interop.faulted $(FAULTED)

interpreted:
	rm -f src/odradek__mypyc*.so
	find src/odradek -name '*.so' -not -name '_*' -delete

format: $(VENV)/.dev
	$(BIN)/ruff check --fix $(SRC)
	$(BIN)/ruff format $(SRC)

# With `build` goes the list of what was compiled, by which sources that have changed since are noticed: so the
# compiled goes too, and is made again by whatever needs it.
clean:
	rm -rf build dist demo-data .interop .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -not -path './$(VENV)/*' -exec rm -rf {} +
	find src -name '*.so' -delete
	rm -f $(VENV)/.dev $(VENV)/.docs $(VENV)/.quick $(VENV)/.spark
