# Weir: every task of developers and CI. `make` alone lists them.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# Go may lie outside PATH, and an older one may fetch the version that go.mod names.
export PATH := $(PATH):/usr/local/go/bin
export GOTOOLCHAIN ?= auto

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
GO_BUILD := go build -trimpath -ldflags '-X main.version=$(VERSION)'
# How long each fuzz target runs.
FUZZTIME ?= 40000x

# What the kernel of the VM must have.
VM_REQUIRE := root,ipvs,btf,dummy,nftables,cgroup2,redis,bpftool

gotestsum = go tool gotestsum --format standard-quiet --jsonfile out/test/$@.json

.PHONY: help
help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: deps
deps: ## install what a Debian 12 or 13 machine lacks, as root; asks first
	@hack/deps.sh

.PHONY: build
build: ## compile all binaries into bin/
	@echo "build: bin/ at $(VERSION); the first build also fetches the Go modules"
	@CGO_ENABLED=0 $(GO_BUILD) -o bin/ ./cmd/nodeagent ./cmd/weirctl ./cmd/extender
	@$(GO_BUILD) -o bin/ ./cmd/optimizer
	@CGO_ENABLED=0 $(GO_BUILD) -o bin/ ./test/lab/cmd/lab ./test/lab/cmd/vmrun

.PHONY: generate
generate: ## rebuild the eBPF objects and their Go bindings with clang 19
	@echo "generate: compiling bpf/*.c"
	@go generate ./...

.PHONY: check-generate
check-generate: generate ## fail where the committed generated files differ from rebuilt ones
	@git diff --exit-code --stat -- bpf || { echo "check-generate: commit what make generate wrote" >&2; exit 1; }

.PHONY: lint
lint: ## gofmt, go vet, staticcheck, import rules, shellcheck, text rules
	@hack/lint.sh

.PHONY: test
test: build lint check-generate test-unit fuzz test-kernel test-vm test-lab ## run every check and test, as root
	@hack/summary.sh out/test

.PHONY: test-unit
test-unit: ## tests that need nothing of the kernel, with the race detector
	@echo "test-unit: go test -race"; mkdir -p out/test
	@$(gotestsum) -- -race $$(hack/packages.sh any ./...)

.PHONY: fuzz
fuzz: ## run each fuzz target FUZZTIME (40000x: inputs)
	@hack/fuzz.sh $(FUZZTIME)

.PHONY: test-kernel
test-kernel: ## tests on this machine's kernel; a feature that it should have must be there
	@export WEIR_REQUIRE=$$(hack/capabilities.sh); mkdir -p out/test; \
	echo "test-kernel: Linux $$(uname -r), which must have $$WEIR_REQUIRE"; \
	$(gotestsum) -- -race -count=1 $$(hack/packages.sh kernel ./...)

.PHONY: test-vm
test-vm: build ## the node agent's tests on a Debian kernel with IPVS, in an emulated machine
	@echo "test-vm: a Debian kernel under qemu, which must have $(VM_REQUIRE)"; mkdir -p out/test
	@WEIR_REQUIRE=$(VM_REQUIRE) $(gotestsum) -- -count=1 -p 1 -timeout 15m -exec "$(CURDIR)/bin/vmrun --deadline 15m --share $(CURDIR)/out --" \
		$$(hack/packages.sh kernel ./nodeagent/...)

.PHONY: test-lab
test-lab: build ## the whole loop in the lab, for a short while
	@echo "test-lab: a short run of the demo"
	@bin/lab demo --smoke

.PHONY: cluster-build
cluster-build: ## build the Kubernetes control plane of the tests into the user's cache, once (some 20 minutes)
	@go run ./test/cluster/cmd/cluster build

.PHONY: cluster-up
cluster-up: cluster-build ## start a control plane to play with: NODES (5) kwok nodes
	@go build -o bin/ ./test/cluster/cmd/cluster
	@bin/cluster up --nodes $(or $(NODES),5)

.PHONY: cluster-down
cluster-down: ## stop what cluster-up started
	@go build -o bin/ ./test/cluster/cmd/cluster
	@bin/cluster down

.PHONY: test-cluster
test-cluster: cluster-build ## tests on a real control plane: API server, scheduler, controllers, kwok nodes
	@echo "test-cluster: Kubernetes on loopback; logs in out/cluster"; mkdir -p out/test
	@WEIR_REQUIRE=controlplane,redis $(gotestsum) -- -race -count=1 -p 1 -timeout 30m $$(hack/packages.sh cluster ./...)

.PHONY: demo
demo: deps build ## three nodes, live traffic, Weir against plain IPVS; results in out/demo
	@bin/lab demo

.PHONY: bench
bench: ## Go benchmarks
	@echo "bench: go test -bench"; mkdir -p out/bench
	@go test -run='^$$' -bench=. -benchmem ./... | tee out/bench/go.txt

.PHONY: bench-models
bench-models: deps ## the models beside PuLP with CBC, a greedy balancer and first fit; results in out/bench
	@go run ./test/bench/models --out out/bench && cat out/bench/models.md

.PHONY: bench-extender
bench-extender: cluster-build ## the extender's calls, and what it costs the scheduler; results in out/bench
	@mkdir -p out/bench; rm -f out/bench/extender.json
	@WEIR_BENCH_OUT=$(CURDIR)/out/bench/extender.json go test ./extender -run '^$$' -bench Call -benchtime 5000x
	@WEIR_BENCH_OUT=$(CURDIR)/out/bench/extender.json go test ./extender/placement -run '^$$' -bench Scheduling -benchtime 1x -timeout 20m

.PHONY: bench-cluster
bench-cluster: build cluster-build ## the optimizer on a control plane of 500 nodes and 5,000 pods; results in out/bench
	@go run ./test/bench/cluster --out out/bench

.PHONY: clean
clean: ## remove what was built and measured
	@rm -rf bin out
