# Plumb. The targets that people use: build, install, deb, check, test, demo, bench.

GO      ?= go
CACHE   := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/plumb
LINT    := $(CACHE)/golangci-lint-v2.15.0
NFPM    := $(CACHE)/nfpm-v2.45.0
COUNT   := $(GO) run ./tests/count

# What the programs say that they are: the release that git names, or without a tag the last one.
# Debian's order of versions has 1.0~rc1 before 1.0, and 1.0+3.gabc after it.
BIN     := bin
VERSION := $(or $(shell git describe --tags --match 'v[0-9]*' 2>/dev/null | sed 's/^v//; s/-rc/~rc/; s/-\([0-9]*\)-g/+\1.g/'),0.1.0)
COMMIT  := $(shell git rev-parse --short=12 HEAD 2>/dev/null)
INFO    := github.com/plumb-net/plumb/plugins/buildinfo
LDFLAGS := -s -w -X $(INFO).version=$(VERSION) -X $(INFO).commit=$(COMMIT)

# Where things are installed; DESTDIR goes before all of it, PREFIX before the most.
PREFIX      ?= /usr/local
CNI_BIN_DIR ?= /opt/cni/bin
UNIT_DIR     = $(PREFIX)/lib/systemd/system
ZSH_DIR      = $(PREFIX)/share/zsh/site-functions

# Packages whose tests run on real servers or a real kernel. They wait for these more than
# they work, so there are lists that run beside each other; within one it is one after the
# other. Those of OUTSIDE drive the programs themselves, where the race detector has nothing
# to see. Emulated machines fill the time in which others wait: that of one kernel beside the
# first lists, that of the other beside the last. The API server of KUBERNETES is built from its modules
# once, at the lowest priority while the first lists run. What fails of all these is tried once more,
# see docs/decisions/0055-tried-twice.md.
ENGINES := ./agent/... ./plugins/container/... ./plugins/containerd/... ./plugins/cri/... ./plugins/docker/... ./tests/observe/...
STORES  := ./plugins/etcd/...
KINDS   := ./descriptors/... ./examples/...
AGENTS   = $(call apart,./tests/e2e/...,$(KUBERNETES))
OUTSIDE := ./tests/arch/... ./tests/attributes/... ./tests/configurations/... ./tests/demo/... ./tests/hosts/... ./tests/install/... ./tests/page/...
KUBERNETES := ./plugins/kubernetes/... ./tests/e2e/kubernetes/...
KERNELS := ./tests/kernels/...
apart    = $(filter-out $(shell $(GO) list $(2) 2>/dev/null),$(shell $(GO) list $(1)))
PLUGINS  = $(call apart,./plugins/...,$(ENGINES) $(STORES) $(KUBERNETES))
UNIT     = $(call apart,./...,./plugins/... $(ENGINES) $(STORES) $(KINDS) $(AGENTS) $(KUBERNETES) $(OUTSIDE) $(KERNELS) ./tests/bench/...)

PROFILE ?= docker

.PHONY: build install uninstall deb check test hosts sim soak demo bench mutants fmt lint generate clean docs prepare

build: ## bin/plumb-agent, bin/agentctl and bin/plumb-cni, static, and what goes with them
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/ ./cmd/plumb-agent ./cmd/agentctl ./cmd/plumb-cni
	mkdir -p $(BIN)/share
	$(BIN)/agentctl gen-man | gzip -9n > $(BIN)/share/agentctl.1.gz
	$(BIN)/plumb-agent gen-man | gzip -9n > $(BIN)/share/plumb-agent.8.gz
	gzip -9nc deploy/man/plumb-cni.8 > $(BIN)/share/plumb-cni.8.gz
	CGO_ENABLED=0 $(GO) run ./deploy/notices ./cmd/plumb-agent ./cmd/agentctl ./cmd/plumb-cni > $(BIN)/share/third-party-notices
	gzip -9nf $(BIN)/share/third-party-notices
	for s in bash zsh fish; do $(BIN)/agentctl completion $$s > $(BIN)/share/agentctl.$$s || exit 1; done

# From, to, and with which mode. A configuration that is there is its owner's.
define FILES
$(BIN)/plumb-agent $(PREFIX)/bin/plumb-agent 755
$(BIN)/agentctl $(PREFIX)/bin/agentctl 755
$(BIN)/plumb-cni $(CNI_BIN_DIR)/plumb-cni 755
$(BIN)/share/agentctl.1.gz $(PREFIX)/share/man/man1/agentctl.1.gz 644
$(BIN)/share/plumb-agent.8.gz $(PREFIX)/share/man/man8/plumb-agent.8.gz 644
$(BIN)/share/plumb-cni.8.gz $(PREFIX)/share/man/man8/plumb-cni.8.gz 644
$(BIN)/share/agentctl.bash $(PREFIX)/share/bash-completion/completions/agentctl 644
$(BIN)/share/agentctl.zsh $(ZSH_DIR)/_agentctl 644
$(BIN)/share/third-party-notices.gz $(PREFIX)/share/doc/plumb/third-party-notices.gz 644
$(BIN)/share/agentctl.fish $(PREFIX)/share/fish/vendor_completions.d/agentctl.fish 644
deploy/systemd/plumb-agent.service $(UNIT_DIR)/plumb-agent.service 644
endef
export FILES

install: ## what make build has made, below PREFIX; DESTDIR goes before all
	echo "$$FILES" | while read -r from to mode; do install -D -m $$mode "$$from" "$(DESTDIR)$$to" || exit 1; done
	sed -i 's|/usr/bin/|$(PREFIX)/bin/|' $(DESTDIR)$(UNIT_DIR)/plumb-agent.service
	test -e $(DESTDIR)/etc/plumb/plumb.yaml || install -D -m 644 deploy/plumb.yaml $(DESTDIR)/etc/plumb/plumb.yaml

uninstall: ## the same files; configuration, state and network stay
	echo "$$FILES" | while read -r from to mode; do rm -f "$(DESTDIR)$$to" || exit 1; done

deb: PREFIX  := /usr
deb: ZSH_DIR := /usr/share/zsh/vendor-completions
deb: build $(NFPM) ## bin/plumb_VERSION_ARCH.deb
	rm -rf $(BIN)/stage
	$(MAKE) --no-print-directory install DESTDIR=$(BIN)/stage BIN=$(BIN) PREFIX=$(PREFIX) ZSH_DIR=$(ZSH_DIR)
	mkdir -p $(BIN)/stage/usr/share/doc/plumb
	gzip -9nc CHANGELOG.md > $(BIN)/stage/usr/share/doc/plumb/CHANGELOG.md.gz
	printf 'plumb (%s) unstable; urgency=medium\n\n  * What changes for users is in CHANGELOG.md.gz.\n\n -- %s  %s\n' \
	  '$(VERSION)' "$$(sed -n 's/^maintainer: //p' deploy/nfpm.yaml)" "$$(git log -1 --format=%cD)" \
	  | gzip -9n > $(BIN)/stage/usr/share/doc/plumb/changelog.gz
	BIN=$(BIN) VERSION='$(VERSION)' ARCH=$$($(GO) env GOARCH) SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) \
	  $(NFPM) package --packager deb --config deploy/nfpm.yaml --target $(BIN)

check: build lint ## quick: build, lint and vet, architecture and unit tests
	$(COUNT) $(UNIT)

test: prepare build lint $(NFPM) ## everything that CI checks; installs what is missing
	$(GO) run ./plugins/kubernetes/kubetest/build >$(CACHE)/kube-apiserver.log 2>&1 & \
	$(COUNT) \
	  -count=1 -race -vet=off -timeout=30m $(UNIT) + \
	  again -count=1 -race -vet=off -timeout=30m -p=1 $(ENGINES) beside $(STORES) $(KINDS) beside $(PLUGINS) \
	    beside '-run=^TestStable$$' -timeout=45m $(KERNELS) + \
	  again -count=1 -vet=off -timeout=30m -p=1 $(OUTSIDE) beside -parallel=4 -timeout=45m $(AGENTS) beside -race -timeout=45m $(KUBERNETES) beside '-skip=^TestStable$$' -timeout=45m $(KERNELS) + \
	  fuzz -vet=off -fuzztime=200x -fuzzminimizetime=20x ./...

hosts: ## make test while this machine is as Docker leaves it; PROFILE=kubernetes, desktop, router or ipv6-off
	mkdir -p .cache/bin
	$(GO) build -o .cache/bin/ ./tests/hosts
	.cache/bin/hosts $(PROFILE) make test

sim: ## ten million random steps of the scheduler, on all processors: 5 minutes
	$(GO) test -count=1 -timeout 0 -v -run '^TestSim$$' ./scheduler -sim 10000000

soak: ## containers and pods come and go for long, with faults, kills and restarts of all
	$(GO) test -count=1 -timeout 60m ./tests/kernels -all
	$(GO) test -count=1 -timeout 20m -v -tags soak -run '^TestSoak$$' ./tests/e2e -soak 5m
	$(GO) test -count=1 -timeout 20m -run '^TestRandomHistory$$' ./plugins/container -histories 10000
	$(GO) test -count=1 -timeout 30m -v -run '^TestLostState$$' ./tests/e2e -losses 200
	$(GO) test -count=1 -timeout 30m -v -run '^TestChanged(Marks|Numbers)$$' ./tests/e2e -marks 150
	$(GO) test -count=1 -timeout 30m -v -run '^TestConfirmKilled$$' ./tests/e2e -confirms 100
	$(GO) test -count=1 -timeout 120m -v -run '^TestSameAsInformer$$' ./plugins/kubernetes -operations 100000
	$(GO) test -count=1 -timeout 60m -v ./tests/e2e/cni -sandboxes 200 -kills 200 -down 1m
	$(GO) test -count=1 -timeout 20m -v -run "^TestIncumbentsStay$$" ./plugins/cni -collisions 20000
	$(GO) test -count=1 -timeout 60m -v -run '^TestDamagedStore$$' ./tests/e2e -damages 100
	$(GO) test -count=1 -timeout 30m -v -run '^TestChangesWhileAway$$' ./scheduler -aways 100000
	$(GO) test -count=1 -timeout 30m -v -run '^TestGuardsAfterAway$$' ./tests/e2e -away 60
	$(GO) test -count=1 -timeout 60m -v -run '^TestNeighborsReach$$' ./descriptors/announce -steps 2000
	$(GO) test -count=1 -timeout 60m -v -run '^TestClientsFollowPorts$$' ./descriptors/nftables -flow-steps 2000
	$(GO) test -count=1 -timeout 60m -v -run '^TestHostileCampaign$$' ./tests/e2e -hostile 300000
	$(GO) test -count=1 -timeout 60m -v -run '^TestStaleState$$' ./tests/e2e -stale 500
	$(GO) test -count=1 -timeout 30m -v -run '^TestManyContainers$$' ./tests/e2e -containers 300
	$(GO) test -count=1 -timeout 30m -v -run '^TestKernel_Churn$$' ./plugins/cni -churns 1000
	$(GO) test -count=1 -timeout 60m -v -run '^TestOverlappingRollouts$$' ./plugins/fleet -overlaps 1000 -overlap-seed 2
	$(COUNT) fuzz -fuzztime=3m -fuzzminimizetime=30s ./...

demo: build ## the whole story on this machine, as root; leaves nothing behind
	tests/demo/demo.sh

bench: build ## figures beside their floors
	$(GO) test -run '^$$' -bench . -benchtime 5x ./tests/bench
	$(GO) test -run '^$$' -bench . -p 1 ./scheduler/... ./plugins/... ./descriptors/...

mutants: ## known bugs put back into the engine, and which test finds each; SAMPLE=24 draws as many from its code
	$(GO) run ./tests/mutants $(if $(SAMPLE),-sample $(SAMPLE))

lint: $(LINT)
	$(LINT) run --allow-serial-runners

# In the cache of the user, so that it is built once (about two minutes).
$(LINT):
	mkdir -p $(CACHE)/build
	GOBIN=$(CACHE)/build $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
	mv $(CACHE)/build/golangci-lint $@

$(NFPM):
	mkdir -p $(CACHE)/build
	GOBIN=$(CACHE)/build $(GO) install github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.0
	mv $(CACHE)/build/nfpm $@

fmt:
	gofmt -l -w $$($(GO) list -f '{{.Dir}}' ./...)

docs: build ## docs/cli.md
	bin/agentctl gen-docs > docs/cli.md

generate: ## protobuf and API code, then the docs made by it; needs protobuf-compiler
	mkdir -p .cache/bin
	GOBIN=$(CURDIR)/.cache/bin $(GO) install google.golang.org/protobuf/cmd/protoc-gen-go
	GOBIN=$(CURDIR)/.cache/bin $(GO) install connectrpc.com/connect/cmd/protoc-gen-connect-go
	PATH=$(CURDIR)/.cache/bin:$$PATH protoc --go_out=. --go_opt=paths=source_relative models/models.proto
	PATH=$(CURDIR)/.cache/bin:$$PATH $(GO) generate ./...
	$(MAKE) docs

prepare:
	.ci/prepare

clean:
	rm -rf bin .cache
