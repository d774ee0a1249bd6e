# liveconfig: what can be built, tested and checked. `make` lists it.
#
# It needs Go 1.26 and little else (test/setup.sh installs or names it). Programs that tests stand on are built from Go
# modules into bin/, once, as any user.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS   += --no-print-directory

# The Go modules of this repository: the project's, the one that makes its image, the tests', the benchmark's, and one for
# each set of tools.
MODULES := . deploy/image test test/bench $(patsubst %/go.mod,%,$(wildcard test/tools/*/go.mod))
# What a node with its control plane is made of.
NODE    := etcd kube-apiserver kubectl kubelet kube-controller-manager kube-scheduler containerd containerd-shim-runc-v2 \
	ctr runc
LINT    := bin/tools/golangci-lint
# How long `make test/fuzz` runs each target.
FUZZTIME ?= 30s
# What `make image` calls the image; the manifests of deploy/base ask for this one.
IMAGE   ?= liveconfig:dev
# Which tag `make release` makes the files of, and where image and chart of it belong.
VERSION  ?=
REGISTRY ?= ghcr.io/liveconfig-csi
# Recipes read these from the environment: what a tag is called is not for a shell to run.
export IMAGE VERSION REGISTRY

##@ Help

.PHONY: help
help: ## list the targets
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z0-9\/-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' Makefile

##@ Build

.PHONY: build
build: ## build every program of cmd/ into bin/, static and reproducible
	@mkdir -p bin
	CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o bin/ ./cmd/...

.PHONY: image
image: ## build the container image into bin/image/, without a container engine; IMAGE=NAME:TAG
	@go -C deploy/image run . --image "$$IMAGE"

.PHONY: image/push
image/push: ## build it and push it to the registry that IMAGE names, with the credentials of docker login
	@go -C deploy/image run . --image "$$IMAGE" --push

.PHONY: release
release: bin/helm ## make all files of version VERSION, a tag, into bin/release/; REGISTRY is where its image and chart will be
	@deploy/release.sh "$$VERSION" "$$REGISTRY"

.PHONY: release/push
release/push: bin/helm ## the same, and push image and chart to REGISTRY, with the credentials of docker login
	@deploy/release.sh "$$VERSION" "$$REGISTRY" push

.PHONY: demo
demo: setup ## see it work on this machine in seconds: the driver, a real mount, manifests in place of an API server
	@test/demo.sh

.PHONY: demo/cluster
demo/cluster: bin/k8s build ## the same with a real API server
	@echo "building the demo"
	@go -C test run ./demo/cluster --repo=..

.PHONY: sandbox
sandbox: override export CMD := $(value CMD)
sandbox: ## a shell in a real one-node cluster with the driver and the controller; CMD='kubectl get nodes' runs one command line; needs root
	@test/sandbox.sh $${CMD:+"$$CMD"}

.PHONY: bin/k8s
bin/k8s: setup ## build etcd, kube-apiserver and kubectl, unless they are built (4 to 10 minutes on two cores)
	@test/tools/build.sh etcd kube-apiserver kubectl

.PHONY: bin/node
bin/node: setup ## get all that a real node is made of, unless it is there (7 to 15 minutes on two cores)
	@test/setup.sh libseccomp-dev openssl pkg-config
	@test/tools/build.sh $(NODE)
	@test/tools/debian.sh
	@for module in . deploy/image test test/bench; do go -C $$module mod download; done # Root would own what it fetches.

.PHONY: bin/storage-e2e
bin/storage-e2e: setup ## build Kubernetes' own tests of volumes, unless they are built
	@test/tools/build.sh storage-e2e agnhost

.PHONY: bin/shells
bin/shells: ## install the shells that complete commands, unless they are there
	@test/setup.sh zsh fish

.PHONY: bin/mkdocs
bin/mkdocs: setup
	@test/setup.sh mkdocs mkdocs-material python3-pymdownx

.PHONY: bin/servers
bin/servers: setup ## unpack servers that read files of volumes, and promtool, unless they are there
	@test/tools/debian.sh servers

.PHONY: bin/watchers
bin/watchers: setup bin/servers ## get programs that watch files, unless they are there
	@test/setup.sh default-jdk-headless inotify-tools node-chokidar python3-watchdog
	@test/tools/build.sh coredns

.PHONY: bin/vm
bin/vm: ## get the emulator and Debian's kernels, unless they are there
	@test/setup.sh qemu-system-x86 qemu-system-arm bzip2
	@test/tools/kernels.sh

##@ Test

.PHONY: test
test: setup ## what to run before a commit: unit tests, csi-sanity, the driver and the plugin with a real API server
	@rm -f bin/test/stages
	@for stage in bin/tools bin/k8s; do test/timed.sh "make $$stage" $(MAKE) $$stage; done
	@test/go-test.sh unit product

.PHONY: test/all
test/all: test test/rest ## test and all the rest but for the night: kubelet and containers, controller, faults, scale, monitoring, chart; needs root

.PHONY: test/rest
test/rest: setup ## what test leaves out, but for what runs at night
	@rm -f bin/test/stages
	@for stage in bin/tools bin/node bin/storage-e2e bin/helm bin/watchers; do test/timed.sh "make $$stage" $(MAKE) $$stage; done
	@test/go-test.sh race rest test/bench deploy/image test/tools/kubernetes/storage-e2e/plan

.PHONY: test/nightly
test/nightly: test/night test/versions test/mutation test/soak ## what runs at night (seven hours); needs root

.PHONY: test/night
test/night: setup ## other kernels, arm64, control groups v2, shells, krew, the site, and what the release workflow does; needs root
	@rm -f bin/test/stages
	@test/setup.sh chromium
	@for stage in bin/tools bin/k8s bin/node bin/helm bin/shells bin/vm bin/mkdocs; do test/timed.sh "make $$stage" $(MAKE) $$stage; done
	@test/go-test.sh night

.PHONY: test/unit
test/unit: bin/tools ## the tests beside the code
	@test/go-test.sh unit

.PHONY: test/sanity
test/sanity: bin/tools ## the CSI project's own conformance tests against the driver
	@test/go-test.sh test/sanity

.PHONY: test/driver
test/driver: bin/tools bin/k8s ## the driver with a real API server and real mounts: updates and faults
	@test/go-test.sh test/driver

.PHONY: test/rollout
test/rollout: bin/tools bin/node bin/servers ## the rollout controller with Kubernetes' own controllers and kubectl
	@test/go-test.sh test/rollout

.PHONY: test/release
test/release: bin/tools bin/k8s ## releases of edits: the controller and drivers with a real API server
	@test/go-test.sh test/release

.PHONY: test/cli
test/cli: bin/tools bin/k8s ## the plugin of kubectl with kubectl and a real API server
	@test/go-test.sh test/cli

.PHONY: test/fleet
test/fleet: bin/tools bin/k8s ## the plugin with 5,000 pods: how much memory and how many requests it takes
	@test/go-test.sh test/fleet

.PHONY: test/shells
test/shells: bin/tools bin/shells ## the plugin's completion in shells, which are installed first
	@test/go-test.sh test/shells

.PHONY: test/watchers
test/watchers: bin/tools bin/watchers ## which programs see a change, and that docs/watching.md says so; UPDATE=1 writes its table
	@test/go-test.sh test/watchers

.PHONY: test/monitoring
test/monitoring: bin/tools bin/servers bin/k8s ## the alert rules and the dashboard of deploy/monitoring
	@test/go-test.sh test/monitoring

.PHONY: test/deploy
test/deploy: bin/tools bin/helm bin/k8s ## the chart, and that deploy/base and deploy/controller are what it makes
	@test/go-test.sh test/deploy

.PHONY: test/dryrun
test/dryrun: bin/tools bin/helm bin/k8s ## the release workflow's own commands, with a registry on loopback
	@test/go-test.sh test/dryrun

.PHONY: test/e2e
test/e2e: bin/tools bin/node bin/storage-e2e bin/helm ## the driver in containers of a real node; needs root
	@test/go-test.sh test/e2e

.PHONY: test/sandbox
test/sandbox: bin/tools bin/node bin/helm ## that the sandbox works, and leaves nothing behind; needs root
	@test/go-test.sh test/sandbox

.PHONY: test/site
test/site: bin/tools bin/mkdocs ## every page of the site in Chromium, at the width of a phone and of a desktop
	@test/setup.sh chromium
	@test/go-test.sh test/site

.PHONY: test/vm
test/vm: bin/tools bin/vm ## the driver on other kernels and processors, under emulation
	@test/go-test.sh test/vm

.PHONY: test/vmnode
test/vmnode: bin/tools bin/node bin/helm bin/vm ## pods on a node with cgroup v2, under emulation (five minutes)
	@test/go-test.sh test/vmnode

.PHONY: test/versions
test/versions: bin/tools bin/node bin/helm ## the core with other versions of Kubernetes, and a table of them; builds each first (15 minutes on two cores); needs root
	@test/versions.sh

.PHONY: test/kit
test/kit: bin/tools bin/node ## what the tests stand on
	@test/go-test.sh test/kit

.PHONY: test/soak
test/soak: bin/tools bin/node bin/servers ## the tests that chance or size has a part in, in full (three hours)
	@LIVECONFIG_SOAK=1 TEST_TIMEOUT=100m test/go-test.sh unit test/volume test/driver test/soak test/rollout test/release

.PHONY: test/fuzz
test/fuzz: setup ## every fuzz target for FUZZTIME (30s)
	@test/fuzz.sh $(FUZZTIME)

.PHONY: test/mutation
test/mutation: setup ## change operators in the core packages, and see whether the tests beside the code notice (half an hour)
	@test/tools/build.sh gremlins
	@go -C test run ./mutation --repo=..

.PHONY: bench
bench: bin/node bin/helm ## measure beside the kubelet and bare watches, and write test/bench/RESULTS.md; three quarters of an hour on a quiet machine; needs root
	@cd test/bench && go run -exec="$(CURDIR)/test/exec.sh" .

.PHONY: bench/quick
bench/quick: bin/node bin/helm ## the same with few samples, for a look; writes bin/test/bench-quick/RESULTS.md; needs root
	@cd test/bench && go run -exec="$(CURDIR)/test/exec.sh" . --quick --out=../../bin/test/bench-quick

.PHONY: bench/go
bench/go: setup bin/k8s ## every benchmark of Go's kind
	go test -run='^$$' -bench=. -benchmem ./...
	go -C test test -run='^$$' -bench=. -benchmem ./...
	go -C test/bench test -run='^$$' -bench=. -benchmem ./...

.PHONY: cover
cover: setup ## how much of each package the tests beside the code run; bin/test/cover.html shows the lines
	@mkdir -p bin/test
	go test -coverprofile=bin/test/cover.out ./...
	go tool cover -html=bin/test/cover.out -o bin/test/cover.html

##@ Check

.PHONY: lint
lint: setup ## golangci-lint over all modules, by .golangci.yml
	@test/tools/build.sh golangci-lint
	@$(LINT) config verify
	@echo "linting the project"
	@$(LINT) run --allow-serial-runners ./...
	@echo "linting its tests"
	@cd test && ../$(LINT) run --allow-serial-runners ./...
	@echo "linting the benchmark"
	@cd test/bench && ../../$(LINT) run --allow-serial-runners ./...
	@echo "linting what makes its image"
	@cd deploy/image && ../../$(LINT) run --allow-serial-runners ./...

.PHONY: fmt
fmt: setup ## format the code as lint wants it
	@test/tools/build.sh golangci-lint
	@$(LINT) fmt && cd test && ../$(LINT) fmt && cd bench && ../../$(LINT) fmt && cd ../../deploy/image && ../../$(LINT) fmt

.PHONY: vulncheck
vulncheck: test/vulncheck ## known vulnerabilities in what the driver and the tests call; asks vuln.go.dev, or the mirror at VULNDB
	@test/tools/vulncheck.sh . test test/bench

.PHONY: test/vulncheck
test/vulncheck: setup ## that vulncheck finds what is there, and fails without a database; needs none
	@test/tools/build.sh govulncheck
	@test/tools/vulncheck.sh --self-test

.PHONY: verify
verify: lint test/vulncheck ## lint, and check that modules are tidy and that scripts are sound
	@test/setup.sh shellcheck
	@for module in $(MODULES); do echo "go mod tidy -diff in $$module" && go -C $$module mod tidy -diff; done
	@shellcheck -x deploy/*.sh deploy/krew/*.sh docs/*/*.sh test/*.sh test/deploy/*.sh test/tools/*.sh examples/*.sh examples/*/*.sh .ci/run

##@ Housekeeping

.PHONY: monitoring
monitoring: ## write deploy/monitoring/prometheusrule.yaml from rules.yaml, and the chart's dashboard from that of deploy/monitoring
	@sed 's/^ *//' deploy/monitoring/dashboard.json | tr -d '\n' >deploy/chart/files/dashboard.json
	@cd deploy/monitoring && { sed '/^spec:/q' prometheusrule.yaml; sed '/^#/d; /./s/^/  /' rules.yaml; } >rule.new && \
	  mv rule.new prometheusrule.yaml

.PHONY: manifests
manifests: bin/helm ## write deploy/base, deploy/controller and deploy/admission from deploy/chart
	@test/deploy/manifests.sh

.PHONY: docs
docs: bin/tools bin/helm bin/k8s ## write the generated tables and pictures of docs/ and the table of the chart's page from the code, and from what an API server answers
	@LIVECONFIG_UPDATE=1 go test -count=1 -p 1 -run '^TestPageOf' ./docs/... ./cmd/... ./pkg/daemon/telemetry ./pkg/rollout/state
	@LIVECONFIG_UPDATE=1 go -C test test -count=1 -run '^TestPageOf' ./deploy

.PHONY: site
site: bin/mkdocs ## make a site of the pages, with a search, in bin/site; bin/site/index.html is its start
	@docs/site/build.sh

.PHONY: setup
setup:
	@test/setup.sh

.PHONY: bin/tools
bin/tools: setup
	@test/tools/build.sh gotestsum

.PHONY: bin/helm
bin/helm: setup ## build helm, unless it is built (2 to 4 minutes on two cores)
	@test/tools/build.sh helm

.PHONY: clean
clean: ## remove what build and test leave behind, but not the programs that tests stand on
	@[[ ! -d bin ]] || find bin -mindepth 1 -maxdepth 1 ! -name k8s ! -name node ! -name 'debian*' ! -name tools -exec rm -rf {} +

.PHONY: clean/all
clean/all: ## remove everything that was built
	@rm -rf bin
