# make run and make test need Go alone. The other targets say what else they need.

GO ?= go
export CGO_ENABLED ?= 0
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

LISTEN ?= 127.0.0.1:9092
# Where the page and the control interface are.
HTTP ?= 127.0.0.1:8080
ARGS ?=

# How many times make crash kills the broker.
ROUNDS ?= 50

# Packages with fuzz targets, and how long each target runs.
FUZZTIME ?= 10s

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 20

.PHONY: build
build: ## build bin/kshare
	@$(GO) build -o bin/kshare ./cmd/kshare

.PHONY: run
run: build ## run a fake Kafka on 127.0.0.1:9092 and its page on 127.0.0.1:8080; ARGS adds flags of kshare serve
	@echo "kshare serves Kafka clients on $(LISTEN) until Ctrl-C; bootstrap servers: $(LISTEN). EXPLORE says where a browser sees what they do."
	@exec bin/kshare serve --listen $(LISTEN) --http $(HTTP) $(ARGS)

.PHONY: test
test: ## run all tests that need Go alone
	@$(GO) test ./...
	@$(GO) test -count=1 -v -run '^TestReplay$$' ./replay | grep -E '^(session|steps) ' || { echo 'make test: the replay printed no figures'; exit 1; }

.PHONY: race
race: ## run the tests under the race detector with all invariants checked; needs a C compiler
	@CGO_ENABLED=1 $(GO) test -race -tags invariants -short ./...

.PHONY: crash
crash: ## kill a broker under load ROUNDS (50) times and look for what it had answered
	@$(GO) test -count=1 -v -run '^TestKill(OfCopiers)?$$' -timeout 60m ./crash -rounds $(ROUNDS)

.PHONY: lint
lint: ## check formatting, vet and staticcheck
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$unformatted" ]; then echo "not formatted: $$unformatted"; exit 1; fi
	@$(GO) vet ./...
	@$(GO) vet -tags invariants ./...
	@$(GO) run $(STATICCHECK) ./...

.PHONY: fuzz
fuzz: ## fuzz what decodes bytes of strangers, FUZZTIME (10s) each
	@for package in $$($(GO) list ./...); do \
	  for target in $$($(GO) test -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
	    echo "$$package $$target"; $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$package; \
	  done; \
	done

.PHONY: bench
bench: ## measure kshare beside kfake for some minutes and write docs/benchmarks.md; ARGS=-quick is a smoke test that writes nothing
	@cd bench && $(GO) run . $(if $(filter -quick,$(ARGS)),,-out ../docs/benchmarks.md) $(ARGS)

.PHONY: interop
interop: ## real clients against kshare; needs JDK 17, Maven, Python 3, Node 18 and Rust, and downloads what they use; ARGS=-short for fewer records
	@KSHARE_INTEROP=1 $(GO) test -count=1 -timeout 40m -run '^TestInterop$$' ./interop $(ARGS)

.PHONY: check
check: build ## explore acknowledgements in transactions whole for two members, two records and a producer, then to depth 12 for four records and two producers, for some two minutes
	@bin/kshare check $(ARGS)
	@bin/kshare check --records 4 --producers 2 --most-faults 1 --count-all --in-order --depth 12 $(ARGS)

.PHONY: check-table
check-table: build ## explore the defaults and each unsafe switch of KIP-1289 for some minutes, and write the table of docs/kip-1289.md and testdata/scenarios/check
	@bin/kshare check --table .

.PHONY: page
page: ## the explorer's page in Chromium, for some minutes; needs Chromium, and downloads what drives it; ARGS=-short for fewer records
	@cd explore/pagetest && KSHARE_PAGE=1 $(GO) test -count=1 -timeout 20m . $(ARGS)

.PHONY: screenshots
screenshots: ## take the pictures of docs/pictures anew; needs Chromium, and downloads what drives it
	@cd explore/pagetest && KSHARE_PAGE=1 $(GO) test -count=1 -run '^TestScreenshots$$' . -pictures ../../docs/pictures

# The drivers of the judge: what a client author writes for a client of his own.
DRIVERS := franz-go java confluent-kafka-python krafka
CLIENTS := $(foreach driver,$(DRIVERS),--client conformance/drivers/$(driver)/run)

.PHONY: judge
judge: build ## put four clients through the judge's cases in their short form, for some ten minutes; needs JDK 17, Maven, Python 3 and Rust, and downloads what they use
	@bin/kshare judge run $(CLIENTS) --short --parallel 16 --report bin/judge.html --report bin/judge.json $(ARGS) || { echo 'the clients do not pass all cases: bin/judge.html has the exchanges'; }

.PHONY: judge-full
judge-full: build ## the same with every case, for about an hour; goes on where it was ended, and writes docs/conformance.html and the table of docs/judge-cases.md
	@bin/kshare judge run $(CLIENTS) --client conformance/drivers/shareclient/run --parallel 12 --resume bin/judge-full.json --report docs/conformance.html --report docs/judge-cases.md $(ARGS) || { echo 'the clients do not pass all cases: docs/conformance.html has the exchanges'; }

.PHONY: judge-groups
judge-groups: build ## put clients through the cases of ordinary consumer groups and transactional producers; needs what make judge needs, and Node
	@bin/kshare judge run $(CLIENTS) --client conformance/drivers/kafkajs/run --cases grp,txp --parallel 8 --report bin/judge-groups.html $(ARGS) || { echo 'the clients do not pass all cases: bin/judge-groups.html has the exchanges'; }

.PHONY: judge-selftest
judge-selftest: build ## prove that the judge's cases catch mistakes: mutants of a client, for a minute
	@bin/kshare judge selftest --client conformance/drivers/franz-go/run --client conformance/drivers/shareclient/run

.PHONY: judge-reference
judge-reference: build ## put kshare's own client through the cases in their short form, which it has to pass, for three minutes
	@bin/kshare judge run --client conformance/drivers/shareclient/run --short --parallel 10 --again 2 --report bin/judge-reference.html $(ARGS)

.PHONY: judge-drivers
judge-drivers: build ## check that the drivers do as they are told, for a minute; needs what make judge needs
	@for driver in $(DRIVERS); do bin/kshare judge check-driver --client conformance/drivers/$$driver/run; done

.PHONY: judge-pins
judge-pins: build ## released clients with known mistakes, which the judge must catch, and the releases that mend them, for some ten minutes; needs what make judge needs
	@conformance/drivers/pins bin/kshare

.PHONY: differential
differential: ## hold kshare against a running Apache Kafka for some ten minutes; needs JDK 17, Maven and 1 GB of memory, and downloads Kafka
	@KSHARE_DIFFERENTIAL=short $(GO) test -count=1 -timeout 40m -v ./differential $(ARGS)

.PHONY: differential-full
differential-full: ## the same with all sessions of the gate, 200 random scenarios and more random probes; takes about an hour
	@KSHARE_DIFFERENTIAL=full $(GO) test -count=1 -timeout 180m -v ./differential $(ARGS)

.PHONY: differential-nodes
differential-nodes: ## hold kshare against a cluster of three running Apache Kafka brokers for some ten minutes; needs Linux, JDK 17, Maven and 2 GB of memory, and downloads Kafka
	@KSHARE_DIFFERENTIAL=nodes $(GO) test -count=1 -timeout 60m -v -run '^TestNodeScenarios$$' ./differential $(ARGS)

.PHONY: ci
ci: ## what CI runs beyond make test: the short form of every target
	@bash .ci/ci
