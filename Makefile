# The two commands: `make demo` (see it work) and `make test` (what continuous integration runs).
# Everything else here is a part of one of them, or a tool for working on the project.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

CARGO ?= cargo
SOMERSAULT_TESTDATA ?= $(abspath $(CURDIR)/../shared/data)
export SOMERSAULT_TESTDATA
TARGET := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)
DEV := $(TARGET)/debug
RELEASE := $(TARGET)/release

# make demo
RATE ?= 20000
DURATION ?= 20
USERS ?= 1000
LISTEN ?= 127.0.0.1:7878

# make demo-vote
VOTES ?= 5000

# make unit
PROPTEST_RNG_SEED ?= 1

.PHONY: brokers brokers-stop help demo demo-vote build test lint fmt unit examples programs w3c rsp txn txn-nightly jena-oracle bench bench-oneshot bench-http bench-load bench-streams bench-papers bench-durability bench-transactions bench-ab bench-check bench-report fuzz nightly doctor clean

help: ## this list
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

doctor: ## names the programs that this machine lacks, and the command that installs them
	@missing=""; \
	command -v cc >/dev/null || missing="$$missing build-essential"; \
	command -v git >/dev/null || missing="$$missing git"; \
	if [ -n "$$missing" ]; then echo "Somersault needs:$$missing. Install with: apt-get install -y$$missing" >&2; exit 1; fi; \
	command -v $(CARGO) >/dev/null || { echo "Somersault needs Rust 1.90 or newer. Install it with rustup: apt-get install -y rustup && rustup default stable" >&2; exit 1; }

build: doctor ## the release binary, target/release/somersault
	$(CARGO) build --release --locked -p somersault-cli

demo: build ## a social network live: five streams, nine continuous queries (RATE=, DURATION=, USERS=, LISTEN=)
	$(RELEASE)/somersault demo --rate $(RATE) --duration $(DURATION) --users $(USERS) --listen $(LISTEN)

demo-vote: build ## a voting show live: three procedures in one transaction for each vote, three boards (VOTES=, DURATION=, LISTEN=)
	$(RELEASE)/somersault demo-vote --votes $(VOTES) --duration $(DURATION) --listen $(LISTEN)

test: doctor lint unit examples w3c rsp txn ## all checks; what continuous integration runs
	@echo "make test: all of it passed"

lint: ## formatting, clippy, rustdoc, licences and sources
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked --quiet
	@if command -v cargo-deny >/dev/null; then cargo deny check bans licenses sources; else echo "skipped: cargo-deny is not installed (cargo install cargo-deny)"; fi

fmt: ## formats everything
	$(CARGO) fmt --all

unit: ## unit, property, integration and doc tests of every crate; generated inputs are the same each time (PROPTEST_RNG_SEED=)
	PROPTEST_RNG_SEED=$(PROPTEST_RNG_SEED) $(CARGO) test --workspace --locked --quiet

# The other examples measure, and need data.
EXAMPLES = async_subscriber bank continuous durable live native_procedure one_shot order_router

examples: programs ## the programs under crates/somersault/examples that need no data
	@for e in $(EXAMPLES); do \
	  echo "example $$e"; $(DEV)/examples/$$e >$(TARGET)/example-$$e.out || { cat $(TARGET)/example-$$e.out; exit 1; }; done

# With --workspace, dependencies have the features of the test build and are not built a second time.
programs:
	$(CARGO) build --workspace --bins --examples --locked --quiet

w3c: programs ## the W3C suites
	@if [ -d "$(SOMERSAULT_TESTDATA)/w3c" ]; then $(DEV)/somersault-conformance w3c "$(SOMERSAULT_TESTDATA)/w3c"; \
	else echo "skipped: no test data (no W3C suites at $(SOMERSAULT_TESTDATA); set SOMERSAULT_TESTDATA)"; fi

RSP_SUITES = lsbench/fig1/suite.json lsbench/gen200/suite.json citybench/suite.json citybench/suite-graph.json csrbench/suite.json

rsp: programs ## the stream suites: 1, 2 and 4 shards, the simulator, kill and restart
	@if [ -d "$(SOMERSAULT_TESTDATA)/lsbench" ]; then \
	  suites="$(addprefix $(SOMERSAULT_TESTDATA)/,$(RSP_SUITES)) $$(ls crates/conformance/cases/*/suite.json 2>/dev/null | tr '\n' ' ')"; \
	  for shards in 1 2 4; do echo "rsp, $$shards shards"; $(DEV)/somersault-conformance rsp --shards $$shards $$suites; done; \
	  echo "rsp, by delta"; $(DEV)/somersault-conformance rsp --delta $$suites; \
	  for dialect in rsp-ql cqels-ql; do echo "rsp, in $$dialect"; $(DEV)/somersault-conformance rsp --dialect $$dialect $$suites; done; \
	  for seed in 1 2 3; do echo "rsp, simulator, seed $$seed"; $(DEV)/somersault-conformance rsp --shards 4 --fabric sim --seed $$seed $$suites; done; \
	  for seed in 1 2; do echo "rsp, killed and restarted, seed $$seed"; $(DEV)/somersault-conformance rsp --shards 2 --kill-points 3 --seed $$seed $$suites; done; \
	  echo "rsp, killed and restarted from checkpoints"; $(DEV)/somersault-conformance rsp --shards 2 --kill-points 4 --checkpoint-every 5 --seed 3 $$suites; \
	else echo "skipped: no test data (no stream suites at $(SOMERSAULT_TESTDATA); set SOMERSAULT_TESTDATA)"; fi

TXN = $(DEV)/somersault-conformance txn
TXN_SUITES = $(shell ls $(addprefix $(SOMERSAULT_TESTDATA)/transactions/,batches/*/suite*.json windows/*/suite*.json chains/*/suite*.json leaderboard/tiny/suite*.json) 2>/dev/null)
TXN_LARGE = $(shell ls $(addprefix $(SOMERSAULT_TESTDATA)/transactions/,routing/suite*.json leaderboard/small/suite*.json) 2>/dev/null)

txn: programs ## the suites of transactions: shards, simulated processes, crashes, both recoveries
	@if [ -d "$(SOMERSAULT_TESTDATA)/transactions" ]; then \
	  echo "txn, 1 shard, WEAK recovery"; $(TXN) --shards 1 --recovery weak $(TXN_SUITES); \
	  echo "txn, 4 shards, STRONG recovery"; $(TXN) --shards 4 --recovery strong $(TXN_SUITES); \
	  echo "txn, simulated process"; $(TXN) --fabric sim --seed 1 $(TXN_SUITES); \
	  echo "txn, simulated process, crashes"; $(TXN) --fabric sim --seed 2 --kill-points 3 $(TXN_SUITES); \
	  echo "txn, crashes"; $(TXN) --kill-points 3 --crash --seed 2 $(TXN_SUITES); \
	  echo "txn, from checkpoints"; $(TXN) --fabric sim --seed 4 --kill-points 2 --checkpoint-every 25 $(TXN_SUITES); \
	  echo "txn, killed and restarted"; $(TXN) --kill-points 2 --seed 3 $(wildcard $(SOMERSAULT_TESTDATA)/transactions/chains/pe*/suite.json); \
	  echo "txn, 2 shards"; $(TXN) $(wildcard $(SOMERSAULT_TESTDATA)/transactions/routing/suite.json); \
	else echo "skipped: no test data (no suites of transactions at $(SOMERSAULT_TESTDATA); set SOMERSAULT_TESTDATA)"; fi

txn-nightly: programs ## more of them: routing and leaderboard/small, more kills, drawn seeds
	@if [ -d "$(SOMERSAULT_TESTDATA)/transactions" ]; then \
	  for shards in 1 2 4; do for recovery in strong weak; do \
	    seed=$$RANDOM; echo "txn, $$shards shards, $$recovery, seed $$seed"; \
	    $(TXN) --shards $$shards --recovery $$recovery --seed $$seed $(TXN_SUITES) $(TXN_LARGE); \
	    $(TXN) --shards $$shards --recovery $$recovery --seed $$seed --kill-points 5 $(TXN_SUITES) $(TXN_LARGE); \
	    $(TXN) --shards $$shards --recovery $$recovery --seed $$seed --kill-points 5 --fabric sim $(TXN_SUITES) $(TXN_LARGE); \
	    $(TXN) --shards $$shards --recovery $$recovery --seed $$seed --kill-points 5 --crash $(TXN_SUITES); \
	    $(TXN) --shards $$shards --recovery $$recovery --seed $$seed --kill-points 3 --checkpoint-every 10 $(TXN_SUITES); \
	  done; done; \
	else echo "skipped: no test data (no suites of transactions at $(SOMERSAULT_TESTDATA); set SOMERSAULT_TESTDATA)"; fi

PEERS ?= $(TARGET)/peers
# The number of queries that jena-oracle draws, and their seed.
QUERIES ?= 3000
SEED ?= 1

# One shell, so that each failing step has its own message: without Java or a network there is nothing to compare with.
jena-oracle: programs ## every operator and function, and drawn queries, beside Apache Jena (QUERIES=, SEED=)
	@if ! command -v javac >/dev/null || ! command -v mvn >/dev/null; then \
	  echo "skipped: no Java or Maven (apt-get install -y openjdk-17-jdk-headless maven)"; \
	elif ! PEERS="$(PEERS)" bench/peers/jena/install >/dev/null; then \
	  echo "skipped: Jena could not be installed"; \
	else \
	  jar="$$(ls $(PEERS)/jena/jena-fuseki-server-*.jar | head -1)"; \
	  javac -cp "$$jar" -d "$(PEERS)/jena/oracle" crates/conformance/oracle/Oracle.java; \
	  $(DEV)/somersault-conformance jena --classpath "$$jar:$(PEERS)/jena/oracle" --queries $(QUERIES) --seed $(SEED); \
	fi

BENCH = $(CARGO) run --release --locked -p somersault-bench --

bench: doctor ## one-shot queries, loading and crowds, beside the peers that can be installed (release build; about 30 minutes)
	$(BENCH) all

bench-oneshot: doctor ## one-shot queries beside the peers (ONLY=lubm-1,watdiv…)
	$(BENCH) oneshot $(if $(ONLY),--only $(ONLY))

bench-http: doctor ## the same over HTTP alone, and the cost of requests for the server
	$(BENCH) oneshot --http $(if $(ONLY),--only $(ONLY))
	$(BENCH) throughput

bench-load: doctor ## loading and memory beside the peers
	$(BENCH) load

# The triples that make bench-streams stores: as many as the paper. They need 14 GiB of free memory; take fewer on a smaller machine.
STORED ?= 118000000

bench-streams: doctor ## streams at the paper's scale, beside the peers (ONLY=paper,rates,absorption,oneshot,citybench,memory,snapshots,steps,batches,standing,terms,peers; STORED=)
	$(BENCH) streams --stored $(STORED) --largest $(STORED) $(if $(ONLY),--only $(ONLY))

# Sizes that are given; the defaults of both commands fit into 23 GB.
GIVEN_STORED = $(if $(filter command environment,$(firstword $(origin STORED))),--stored $(STORED))

bench-papers: doctor ## figures of the Wukong papers that bench-streams does not have (ONLY=log,injection,raw,snapshot-numbers,rates,one-shot,city,incoming,ablation,universities,predicates; STORED=, UNIVERSITIES=, INCOMING=)
	$(BENCH) papers $(GIVEN_STORED) $(if $(UNIVERSITIES),--universities $(UNIVERSITIES)) $(if $(INCOMING),--incoming $(INCOMING)) $(if $(ONLY),--only $(ONLY))

bench-durability: doctor ## restarts after kill -9, memory, delays and commits (ONLY=restart,age,checkpoint,absorption,resident,long-query,delay,commit; STORED=, PLAYED=, AGES=)
	$(BENCH) durability $(GIVEN_STORED) $(if $(PLAYED),--played $(PLAYED)) $(if $(AGES),--ages $(AGES)) $(if $(ONLY),--only $(ONLY))

bench-transactions: doctor ## transfers, leaderboard, triggers, recoveries and updates, beside PostgreSQL and SQLite (ONLY=transfers,one-call,leaderboard,triggers,recovery,beside,updates; STORED=)
	$(BENCH) transactions $(GIVEN_STORED) $(if $(ONLY),--only $(ONLY))

# A copy of BASE's tree is built below target/ab, and stays there for the next comparison.
AB_TREE = target/ab/$(shell git rev-parse --short=12 '$(BASE)^{commit}' 2>/dev/null)
ROUNDS ?= 3

bench-ab: doctor ## this tree beside another commit, measured in turn (BASE=<rev>; ROUNDS=3, ONLY=load,lubm-40,social,crowd,paper,absorption,standing)
	@test -n "$(BASE)" || { echo "make bench-ab compares with another commit: name it, as in make bench-ab BASE=HEAD~1" >&2; exit 1; }
	@test "$(AB_TREE)" != target/ab/ || { echo "BASE=$(BASE) is no commit of this repository" >&2; exit 1; }
	@test -d "$(AB_TREE)/crates" || { mkdir -p "$(AB_TREE)"; git archive "$(BASE)" | tar -x -C "$(AB_TREE)"; }
	cd "$(AB_TREE)" && CARGO_TARGET_DIR="$(CURDIR)/$(AB_TREE)/target" $(CARGO) build --release --locked -p somersault-bench
	$(BENCH) ab --base "$(CURDIR)/$(AB_TREE)/target/release/somersault-bench" --rounds $(ROUNDS) $(if $(ONLY),--only $(ONLY))

bench-check: doctor ## each target with its newest figure
	@$(BENCH) check

bench-report: doctor ## writes the newest figures into bench/RESULTS.md and docs/benchmarks.md
	$(BENCH) report

fuzz: ## lists the fuzz targets; they run with a nightly cargo-fuzz
	@ls fuzz/fuzz_targets | sed 's/\.rs$$//' | sed 's/^/  cargo +nightly fuzz run /'

# make brokers
BROKERS := $(TARGET)/brokers
MQTT_PORT ?= 1883

brokers: ## installs the brokers that sources and sinks are tested against, and starts them on loopback (MQTT_PORT=)
	@command -v mosquitto >/dev/null || [ -x /usr/sbin/mosquitto ] || apt-get install -y --no-install-recommends mosquitto || { \
	  echo "skipped: mosquitto cannot be installed; install it by hand (apt-get install mosquitto, as root)"; exit 0; }
	@mkdir -p $(BROKERS)/mosquitto
	@if [ -f $(BROKERS)/mosquitto.pid ] && kill -0 $$(cat $(BROKERS)/mosquitto.pid) 2>/dev/null; then echo "mosquitto runs already"; else \
	  printf 'listener $(MQTT_PORT) 127.0.0.1\nallow_anonymous true\npersistence true\npersistence_location $(BROKERS)/mosquitto/\npid_file $(BROKERS)/mosquitto.pid\nuser %s\n' "$$(id -un)" >$(BROKERS)/mosquitto.conf; \
	  PATH=$$PATH:/usr/sbin mosquitto -d -c $(BROKERS)/mosquitto.conf; fi
	@echo "mqtt://127.0.0.1:$(MQTT_PORT) (make brokers-stop ends it)"

brokers-stop: ## ends the brokers that make brokers has started
	@if [ -f $(BROKERS)/mosquitto.pid ]; then kill $$(cat $(BROKERS)/mosquitto.pid) && rm -f $(BROKERS)/mosquitto.pid; fi

SEEDS ?= 10000
FUZZ_SECONDS ?= 60

nightly: doctor ## the checks that take too long for make test: SEEDS=10000 of the simulator, newly drawn inputs, histories checked for serializability, servers killed 200 times, each fuzz target for FUZZ_SECONDS=60
	@seed=$$RANDOM$$RANDOM; echo "PROPTEST_RNG_SEED=$$seed"; PROPTEST_RNG_SEED=$$seed $(CARGO) test --workspace --locked --quiet
	@seed=$$RANDOM; echo "SOMERSAULT_KILLS=200 SOMERSAULT_SEED=$$seed"; SOMERSAULT_KILLS=200 SOMERSAULT_SEED=$$seed $(CARGO) test --workspace --locked --quiet --test it -- kills
	@seed=$$RANDOM; echo "SOMERSAULT_KILLS=50 SOMERSAULT_SEED=$$seed"; SOMERSAULT_KILLS=50 SOMERSAULT_SEED=$$seed $(CARGO) test --workspace --locked --quiet --test it -- sinks sources
	$(CARGO) run --release --locked -p somersault-sim -- --seeds $(SEEDS)
	@seed=$$RANDOM; echo "histories from seed $$seed"; $(CARGO) run --release --locked -p somersault-sim -- --histories --seed $$seed --seeds $(SEEDS)
	for workload in list-append register bank; do $(BENCH) histories --workload $$workload --seed $$RANDOM --check; done
	$(MAKE) txn-nightly
	$(MAKE) jena-oracle QUERIES=20000 SEED=$$RANDOM
	@if cargo fuzz --version >/dev/null 2>&1 && cargo +nightly --version >/dev/null 2>&1; then \
	  for t in $$(ls fuzz/fuzz_targets | sed 's/\.rs$$//'); do \
	    echo "fuzz $$t"; cargo +nightly fuzz run $$t -- -max_total_time=$(FUZZ_SECONDS) -verbosity=0 -print_final_stats=1; done; \
	else echo "skipped: no nightly cargo-fuzz (rustup toolchain install nightly, cargo install cargo-fuzz)"; fi

clean: ## removes all build products
	$(CARGO) clean
