# `make` or `make help` lists what can be done.

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
NODES ?= 3
SEEDS ?= 2000
GOFUMPT := go run mvdan.cc/gofumpt@v0.12.0
STATICCHECK := go run honnef.co/go/tools/cmd/staticcheck@v0.8.2
# The race detector needs cgo with a C compiler. Where there is none, the tests
# still run, without it.
RACE = $(shell [ "$$(go env CGO_ENABLED)" = 1 ] && command -v "$$(go env CC)" >/dev/null && echo -race)

.PHONY: help build test sim mutants cluster stop demo bench torture lint fmt clean

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' Makefile

# -buildvcs=false: the version is passed on the next line, and Go refuses to ask
# git itself in a folder that belongs to another user (a mounted one, for example).
build: ## build bin/leasehold
	go build -trimpath -buildvcs=false -ldflags '-X leasehold/cli.released=$(VERSION)' -o bin/leasehold .

test: ## run all tests, with the race detector if there is a C compiler
	go test $(RACE) -timeout 10m ./...
	go -C examples test $(RACE) -timeout 10m ./...
	@ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || command -v postgres >/dev/null || \
	echo 'PostgreSQL is not installed: fence/sqlfence was tested with SQLite alone'

# Two processes, each on one processor: a bubble gets no faster by a second one.
sim: ## simulate clusters of 3 and 5 nodes under faults, SEEDS=2000; tells how long it will take
	go test -c -o bin/sim.test ./torture/sim
	@half=$$(( ($(SEEDS) + 1) / 2 )); \
	run() { (cd torture/sim && GOMAXPROCS=1 ../../bin/sim.test -test.run 'TestSim$$' -test.v -test.timeout 0 -seed "$$1" -seeds $$half); }; \
	run 1 & first=$$!; failed=0; run $$((half + 1)) || failed=1; wait $$first || failed=1; exit $$failed

cluster: build ## start a cluster on this machine (NODES=3 or 5), see scripts/cluster.sh help
	scripts/cluster.sh start $(NODES)

stop: ## stop that cluster
	scripts/cluster.sh stop

demo: build ## show the main ideas on three real processes, in a few seconds
	scripts/demo.sh

bench: build ## measure a cluster of three on this machine, about a minute
	scripts/bench.sh

mutants: ## look for sixteen mutants with the simulation and write docs/MUTANTS.md; about ten minutes
	@echo 'sixteen mutants are built and simulated, one after the other: about ten minutes'
	go test ./torture/mutants -run AreCaught -hunt all -table "$(CURDIR)/docs/MUTANTS.md" -timeout 2h -v | grep -v '^=== RUN'

torture: build ## torture clusters of 3 and of 5 with each fault set; takes 27 minutes, see scripts/torture.sh
	scripts/torture.sh

lint: ## check format, mistakes, import arrows and forbidden calls
	@failed=0; \
	check() { echo "lint: $$1"; shift; "$$@" || failed=1; }; \
	unformatted() { files=$$($(GOFUMPT) -l .) || return 1; [ -z "$$files" ] || { echo "run make fmt, for:"; echo "$$files"; return 1; }; }; \
	check gofumpt unformatted; \
	check vet go vet ./...; \
	check staticcheck $(STATICCHECK) ./...; \
	check 'vet, examples' go -C examples vet ./...; \
	check 'staticcheck, examples' $(patsubst go,go -C examples,$(STATICCHECK)) ./...; \
	check 'arrows and calls' go run ./scripts/lint; \
	if command -v shellcheck >/dev/null; then check shellcheck shellcheck -x scripts/*.sh .ci/run; \
	else echo 'lint: shellcheck is not installed, the scripts are not checked'; fi; \
	exit $$failed

fmt: ## format the Go code
	$(GOFUMPT) -w .

clean: ## delete what was built; leaves the data of clusters alone
	rm -rf bin
