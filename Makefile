# `make help` lists the targets. What each promises stands in the README.
SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

BIN     := $(CURDIR)/bin
DEV_DIR := $(CURDIR)/.dev
# An existing cluster for `make run`, install and deploy; empty: the development control plane.
KUBECONFIG ?=
PORT       ?= 9090
TLS_PORT   ?= 9443
KUBECTL    ?= $(shell command -v kubectl 2>/dev/null || echo $(BIN)/kubectl)
# real: one node with real containers next to the simulated ones, for run and dev-up (Linux, root).
WITH_NODE  := $(filter real,$(NODE))
# The kustomization that make deploy applies.
OVERLAY    ?= config/default
# Where make push sends the images; their names in bin/images have it too. A tag may not have a plus sign.
IMAGE_REGISTRY  ?= kapis
IMAGE_TAG       ?= $(subst +,-,$(VERSION))
IMAGE_PLATFORMS ?= linux/$(shell go env GOARCH)
IMAGE_SOURCE    ?= https://kapis.dev/ks-apiserver
# As many digits as no clone shortens: the version is in the images, and one commit has one digest.
VERSION    ?= $(shell git describe --tags --always --dirty --abbrev=12 2>/dev/null || echo dev)
COMMIT     ?= $(shell git rev-parse HEAD 2>/dev/null)
BUILD_DATE ?= $(shell git log -1 --format=%cI 2>/dev/null)

V       := kapis.dev/ks-apiserver/pkg/version
LDFLAGS := -s -w -X $(V).gitVersion=$(VERSION) -X $(V).gitCommit=$(COMMIT) -X $(V).buildDate=$(BUILD_DATE)
# The compiler collects garbage at each doubling of some hundred megabytes; it takes less time where it does so at each fivefold.
GO_BUILD := env GOGC=400 go build -ldflags "$(LDFLAGS)"

# All that is built, by recipes and by the programs that they run, is built with the same flags: each package is compiled once, and once more
# for -race, whatever folder the sources are in. Only this project's packages and Go's own have what a debugger reads (the last pattern that
# matches counts): without it, compiling what others wrote, Kubernetes above all, takes a seventh less. GOFLAGS=-gcflags=all= brings it back.
export CGO_ENABLED := 0
QUICK_GCFLAGS := -gcflags=all=-dwarf=false -gcflags=std= -gcflags=kapis.dev/...=
export GOFLAGS := $(strip -trimpath $(QUICK_GCFLAGS) $(filter-out -trimpath $(QUICK_GCFLAGS),$(shell go env GOFLAGS)))

GOLANGCI_LINT_VERSION := v2.15.0
DLV_VERSION           := v1.27.2

# The packages of tools/dev that do not import Kubernetes itself, which would be compiled again for -race.
DEV_PACKAGES := ./internal/kubelet/... ./internal/pki/... ./internal/plane/... ./internal/process/... ./internal/realnode/... ./pause/...
# Those that are linted too, and not tested with -race: the test of the real node is run by test-node.
DEV_LINTED := $(DEV_PACKAGES) ./nodetest/... ./registry/...

export KUBECONFIG

##@ Everyday

.PHONY: help
help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/ks-apiserver, bin/ks-controller-manager and bin/kubectl-ks
	@. hack/progress.sh; progress "the programs" "some 4 minutes the first time on two cores" $(GO_BUILD) -o $(BIN)/ ./cmd/...

.PHONY: plan
plan:
	@[ -x $(BIN)/run ] || echo "make run: 1. builds the programs, some 4 minutes the first time on two cores;\
	$(if $(KUBECONFIG),, 2. builds a Kubernetes control plane$(if $(WITH_NODE), and a node), some 5 minutes the first time;) then starts in half a minute"

.PHONY: run
run: plan build ## start a local control plane (or use KUBECONFIG=<file>) and both binaries, and MEMBERS=1 or 2 clusters more; Ctrl-C stops them
	@$(if $(KUBECONFIG),,tools/dev/build.sh $(BIN))
	@$(if $(KUBECONFIG),,$(if $(WITH_NODE),hack/real-node.sh $(BIN)))
	@$(GO_BUILD) -o $(BIN)/run ./tools/run
	@exec $(BIN)/run --dir $(DEV_DIR) --bin $(BIN) --port $(PORT) --tls-port $(TLS_PORT) $(if $(KUBECONFIG),--kubeconfig $(KUBECONFIG)) $(if $(WITH_NODE),--node real) $(if $(MEMBERS),--members $(MEMBERS))

.PHONY: dev-up
dev-up: ## start the control plane alone, in the background; NODE=real (also of run) adds a node with real containers
	@tools/dev/build.sh $(BIN)
	@$(if $(WITH_NODE),hack/real-node.sh $(BIN))
	@$(BIN)/dev up --dir $(DEV_DIR) --detach $(if $(WITH_NODE),--node real)

.PHONY: dev-down
dev-down: ## stop the control plane that dev-up started
	@$(BIN)/dev down --dir $(DEV_DIR)

##@ Quality

# Linting has vetted every package, tests too, and nothing debugs a test's program: without both, its build takes a fifth less.
GO_TEST := go test -vet=off -ldflags=-s -timeout 30m
# The race detector is a C library. It is kept out of the loop of bcrypt, as in tools/stack/build.go, which says why.
GO_TEST_RACE := CGO_ENABLED=1 $(GO_TEST) -race -gcflags=golang.org/x/crypto/blowfish=-race=false

.PHONY: test
test: test-servers ## everything: vet and lint, unit tests with -race, end-to-end tests
	@for part in verify test-unit test-e2e; do \
		SECONDS=0; $(MAKE) --no-print-directory $$part; echo "make $$part took $$((SECONDS / 60)) min $$((SECONDS % 60)) s"; done

.PHONY: test-unit
test-unit: test-servers ## unit tests with -race
	$(GO_TEST_RACE) ./cmd/... ./pkg/... ./tools/run/... ./tools/stack/... ./tools/port/... ./tools/tiers/... ./tools/bench/... ./tools/rules/... ./tools/pace/... ./tools/sbom/... ./tools/hostile/... ./tools/dashboard/...
	$(GO_TEST) ./tools/memory # -race would change what objects take
	cd tools/dev && $(GO_TEST_RACE) $(DEV_PACKAGES)
	cd tools/dev && $(GO_TEST) ./registry
	cd tools/logins && $(GO_TEST) . ./oidc
	cd tools/image && $(GO_TEST_RACE) ./...
	cd tools/manifest && $(GO_TEST) ./...
	cd tools/conformance && $(GO_TEST) .

.PHONY: test-quick
test-quick: ## unit tests of the packages that differ from BASE=origin/main, without a control plane
	@hack/test-quick.sh

.PHONY: test-servers
test-servers: ## install OpenLDAP, Redis, Chromium and Node.js for the tests, where they are missing
	@hack/install-test-servers.sh

.PHONY: test-e2e
test-e2e: ## end-to-end tests against the real control plane
	tools/dev/build.sh $(BIN)
	DEV_GOGC=200 $(GO_TEST) -count=1 -timeout 85m ./tools/e2e/... # the programs are built with -race by the tests
	cd tools/logins && $(GO_TEST) -count=1 ./clients ./product
	$(MAKE) test-node
	@if $(BIN)/dev check-node >/dev/null 2>&1; then cd tools/logins && BIN=$(BIN) $(GO_TEST) -count=1 -run '^TestAPageHas' ./product -real-node; fi

.PHONY: test-node
test-node: ## pods on a real node, both programs deployed to it, under load, and one of them in a debugger; says why where this machine cannot have one
	@tools/dev/build.sh $(BIN)
	@hack/real-node.sh $(BIN)
	@if $(BIN)/dev check-node >/dev/null 2>&1; then $(MAKE) --no-print-directory build image debug IMAGE_REGISTRY=kapis.dev IMAGE_TAG=dev && \
		$(GO_BUILD) -o $(BIN)/run ./tools/run; fi
	cd tools/dev && BIN=$(BIN) $(GO_TEST) -count=1 -v -timeout 40m ./nodetest

# A program with its symbols, and the debugger of Go.
.PHONY: debug
debug: $(BIN)/dlv
	@go build -o $(BIN)/debug/ks-apiserver ./cmd/ks-apiserver

.PHONY: conformance
conformance: build ## Kubernetes' own conformance tests, directly and through ks-apiserver, and write docs/conformance.md (NODE=real: more of them)
	@tools/dev/build.sh $(BIN)
	@$(if $(WITH_NODE),hack/real-node.sh $(BIN))
	@$(GO_BUILD) -o $(BIN)/run ./tools/run
	@tools/conformance/build.sh $(BIN)
	@env -u KUBECONFIG $(BIN)/conformance --bin $(BIN) --dir $(DEV_DIR)/conformance --markdown docs/conformance.md $(if $(WITH_NODE),--real)

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZ_TIME=30s each, on two processors; what they find is kept in testdata/fuzz
	DEV_PACKAGES="$(DEV_PACKAGES)" hack/fuzz.sh

.PHONY: lint
lint: $(BIN)/golangci-lint ## golangci-lint
	$(BIN)/golangci-lint run ./...
	cd tools/dev && $(BIN)/golangci-lint run --config $(CURDIR)/.golangci.yaml $(DEV_LINTED)
	cd tools/logins && $(BIN)/golangci-lint run --config $(CURDIR)/.golangci.yaml ./...
	cd tools/image && $(BIN)/golangci-lint run --config $(CURDIR)/.golangci.yaml ./...
	cd tools/manifest && $(BIN)/golangci-lint run --config $(CURDIR)/.golangci.yaml ./...
	cd tools/conformance && $(BIN)/golangci-lint run --config $(CURDIR)/.golangci.yaml ./...

.PHONY: verify
verify: lint sbom ## lint (go vet is a part of it), the import rule, generated files, the Dockerfile, licences, known vulnerabilities
	go run ./tools/tiers
	hack/verify-generated.sh
	hack/verify-dockerfile.sh
	hack/verify-vulnerabilities.sh

.PHONY: sbom
sbom: build ## check the licences of what is linked, and write bin/sbom/*.cdx.json (CycloneDX)
	@go run ./tools/sbom --out $(BIN)/sbom $(BIN)/ks-apiserver $(BIN)/ks-controller-manager $(BIN)/kubectl-ks

.PHONY: generate
generate: ## deepcopy functions and CRDs from pkg/api
	hack/update-codegen.sh

.PHONY: bench
bench: $(BIN)/bench ## measure the real binary next to its yardsticks (BENCH_PODS=10000,100000), and write docs/benchmarks.md; BENCH_ONLY=access, login, audit, terminal, extensions, fleet: docs/benchmarks-access.md, ...
	DEV_GOGC=100 $(BIN)/bench --bin $(BIN) --markdown docs/benchmarks$(if $(BENCH_ONLY),-$(BENCH_ONLY)).md $(if $(KUBECONFIG),--kubeconfig $(KUBECONFIG))

.PHONY: soak
soak: $(BIN)/bench ## load the real binary for SOAK_TIME=10m, then one with -race, look for errors, growth and races, and write docs/soak.md
	BENCH_PODS=$${BENCH_PODS:-10000} $(BIN)/bench --bin $(BIN) --soak $${SOAK_TIME:-10m} --race --markdown docs/soak.md $(if $(KUBECONFIG),--kubeconfig $(KUBECONFIG))

.PHONY: capacity
capacity: $(BIN)/bench ## measure what CAPACITY_OBJECTS=10000,100000 objects and BENCH_USERS=10000 users need, and write docs/capacity.md
	BENCH_PODS=$${CAPACITY_OBJECTS:-10000,100000} BENCH_USERS=$${BENCH_USERS:-10000} $(BIN)/bench --bin $(BIN) --capacity --markdown docs/capacity.md

.PHONY: $(BIN)/bench
$(BIN)/bench: build
	tools/dev/build.sh $(BIN)
	$(GO_BUILD) -o $(BIN)/ ./tools/run ./tools/bench

##@ Cluster

.PHONY: image
image: ## build both images into bin/images, for IMAGE_PLATFORMS=linux/amd64,linux/arm64; no container engine is needed
	@go -C tools/image build -o $(BIN)/image .
	@$(BIN)/image build --root $(CURDIR) --out $(BIN)/images --platforms $(IMAGE_PLATFORMS) --registry $(IMAGE_REGISTRY) --tag $(IMAGE_TAG) \
		--version $(VERSION) --revision "$(COMMIT)" --created "$(BUILD_DATE)" --source "$(IMAGE_SOURCE)" --ldflags "$(LDFLAGS)"

.PHONY: push
push: push-registry image ## build both images and push them to IMAGE_REGISTRY, with the credentials of docker login
	@$(BIN)/image push --from $(BIN)/images --registry $(IMAGE_REGISTRY) --tag $(IMAGE_TAG)

.PHONY: push-registry
push-registry:
	@$(if $(filter file,$(origin IMAGE_REGISTRY)),echo "name the registry: make push IMAGE_REGISTRY=registry.example.com/team" >&2; exit 1)

.PHONY: install
install: ## apply CRDs, default roles and OAuth clients to the cluster of KUBECONFIG
	KUBECTL=$(KUBECTL) hack/install.sh

.PHONY: uninstall
uninstall: ## take away what install applied
	KUBECTL=$(KUBECTL) hack/uninstall.sh

.PHONY: deploy
deploy: ## install, and run both binaries in the cluster, from IMAGE_REGISTRY (OVERLAY=config/overlays/prod, or a folder of your own)
	KUBECTL=$(KUBECTL) OVERLAY=$(OVERLAY) IMAGE_REGISTRY=$(if $(filter file,$(origin IMAGE_REGISTRY)),,$(IMAGE_REGISTRY)) IMAGE_TAG=$(IMAGE_TAG) hack/deploy.sh

.PHONY: undeploy
undeploy: ## take away what deploy started; CRDs, roles and users stay
	$(KUBECTL) delete --ignore-not-found -k config/apiserver
	$(KUBECTL) delete --ignore-not-found --cascade=foreground -k config/manager
	$(KUBECTL) delete --ignore-not-found -f config/default/priorityclass.yaml
	$(KUBECTL) delete --ignore-not-found -f config/overlays/prod/networkpolicy.yaml
	@# Pods that helm uninstall has left end a while later, and their leader makes the webhooks again until then.
	$(KUBECTL) -n kubesphere-system wait --for=delete pod -l app=ks-controller-manager --timeout=120s
	@# Now that nothing makes them again: each of these, leading nowhere, would refuse writes or keep namespaces from being deleted.
	$(KUBECTL) delete --ignore-not-found validatingwebhookconfigurations,mutatingwebhookconfigurations ks-controller-manager.kapis.dev
	$(KUBECTL) delete apiservices -l app.kubernetes.io/part-of=ks-apiserver,app.kubernetes.io/managed-by=ks-controller-manager
	$(KUBECTL) delete --ignore-not-found -f config/aggregated/service.yaml

##@ Cleaning

.PHONY: clean
clean: ## remove bin/
	rm -rf $(BIN)

.PHONY: clean-dev
clean-dev: ## remove the local control plane's state
	@if [ -x $(BIN)/dev ]; then $(BIN)/dev down --dir $(DEV_DIR) 2>/dev/null || true; fi
	rm -rf $(DEV_DIR)

$(BIN)/golangci-lint:
	@echo "building golangci-lint $(GOLANGCI_LINT_VERSION): some minutes the first time"
	GOBIN=$(BIN) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)

$(BIN)/dlv:
	GOBIN=$(BIN) go install github.com/go-delve/delve/cmd/dlv@$(DLV_VERSION)
