# volhost's commands. `make` alone lists them. CI runs .ci/run, which uses these.

# Where cargo builds, and where the components go (always in the checkout: tests and the demo look there).
TARGET   := $(or $(CARGO_TARGET_DIR),target)
PLUGINS  := target/plugins
FIXTURES := target/fixtures

# The package name of every crate in a folder: the first `name` of each Cargo.toml.
crates = $(if $(wildcard $(1)/*/Cargo.toml),$(shell awk -F'"' '/^name *=/ && !seen[FILENAME]++ { print $$2 }' $(wildcard $(1)/*/Cargo.toml)))

# Everything one command needs is built by one call of cargo: asked for one package alone, it gives the dependencies the features of that one,
# and compiles them once more for the next.
BUILD := -p volhost -p volhostd -p volhost-controller -p volhost-kubectl -p volhost-plugin-build

# Cargo's profile: `make install PROFILE=dev` installs what `make build` builds.
PROFILE := dev
OUT = $(TARGET)/$(if $(filter dev,$(PROFILE)),debug,$(PROFILE))
PLUGIN_BUILD = $(OUT)/volhost-plugin-build

.DEFAULT_GOAL := help
.PHONY: help setup binaries build install deb image plugins fixtures demo cluster-demo e2e build-tests test miri bench bench-kubernetes bench-scale profile instructions fuzz lint fmt deny book docs semver semver-baseline clean

help: ## list the commands
	@echo "volhost: make COMMAND"
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' Makefile

setup: ## install what is missing on this machine (Debian packages, the wasm target)
	@deploy/setup.sh

binaries: setup
	cargo build --profile $(PROFILE) $(BUILD)

build: binaries ## build the programs: target/debug/volhost, volhostd, volhost-controller and kubectl-volhost

# Where `make install` installs: DESTDIR is the root of the machine.
DESTDIR ?=
prefix  ?= /usr/local

# The secret key that signs the plugins of `make install`, `make deb` and `make image`, and the file
# that has its password; without a key they are not signed.
export SIGNING_KEY SIGNING_PASSWORD_FILE

install: PROFILE := release
install: plugins ## install programs, units, configuration, plugins, completions and man pages: DESTDIR=, prefix=, SIGNING_KEY=
	deploy/install.sh --from $(OUT) --destdir "$(DESTDIR)" --prefix "$(prefix)"

deb: PROFILE := release
deb: plugins ## make a Debian package: target/volhost_VERSION_ARCHITECTURE.deb; SIGNING_KEY=
	deploy/deb.sh --from $(OUT) --out $(TARGET)

# The programs of an image are static, and so are built apart.
IMAGE = programs=$$(deploy/static.sh $(PROFILE)) && deploy/image.sh --from "$$programs" --out $(TARGET)

image: PROFILE := release
image: BUILD := -p volhost-plugin-build
image: plugins ## make a container image, as root: target/volhost-image.tar, for docker, podman and containerd; SIGNING_KEY=
	@deploy/setup.sh --image
	$(IMAGE)

plugins: binaries ## build every plugin to a component: target/plugins/NAME.wasm
	$(PLUGIN_BUILD) --out $(PLUGINS) $(call crates,plugins)

fixtures: binaries ## build the plugins that only tests load: target/fixtures/NAME.wasm
ifeq ($(call crates,tests/fixtures),)
	@mkdir -p $(FIXTURES)
else
	$(PLUGIN_BUILD) --out $(FIXTURES) $(call crates,tests/fixtures)
endif

demo: build plugins ## see pods' volumes appear as mounts, in a root folder and mount namespace of their own
	@VOLHOST_BIN=$(abspath $(OUT))/volhost VOLHOST_PLUGIN_DIR=$(abspath $(PLUGINS)) examples/demo.sh

cluster-demo: BUILD += -p volhost-tests
cluster-demo: plugins ## see a stock Kubernetes use a plugin's volumes, as root; builds Kubernetes and the image's programs first, once, in 15 minutes
	@deploy/setup.sh --cluster
	$(IMAGE) --fast
	@$(OUT)/cluster-demo $(TARGET)/volhost-image.tar

e2e: BUILD += -p volhost-tests
e2e: plugins ## run Kubernetes' own tests of storage drivers, as root, in 15 minutes: FOCUS=REGEX, SKIP=REGEX, DRIVER=FOLDER
	@deploy/setup.sh --cluster
	@tests/kubernetes/build.sh --e2e
	$(IMAGE) --fast
	@$(OUT)/cluster-e2e $(TARGET)/volhost-image.tar $(TARGET)/e2e "$(FOCUS)" "$(SKIP)" "$(DRIVER)"

# The binaries too: end-to-end tests start them, and cargo builds for a test only those of its own package.
build-tests: BUILD := --workspace --bins --tests
build-tests: plugins fixtures ## build what `make test` runs

test: build-tests ## run every test; as root, kernel tests included (each in its own mount namespace)
	@[ "$$(id -u)" = 0 ] || echo "note: not root, so the tests that mount can't run; see CONTRIBUTING.md"
	@deploy/setup.sh --tests
	@[ "$$(id -u)" != 0 ] || deploy/static.sh $(PROFILE) >/dev/null
	@tests/run.sh $(PROGRAMS)

# Not part of CI: rustup has miri for nightly compilers alone, and not for every one of them.
MIRI := cargo +nightly miri

miri: ## run the unit tests of model and core under miri (needs nightly Rust with miri and rust-src)
	@$(MIRI) --version >/dev/null 2>&1 || { echo "miri is missing: rustup toolchain install nightly --component miri,rust-src" >&2; exit 1; }
	$(MIRI) test -p volhost-model -p volhost-core --lib

# The programs and the benchmarks, built by one choice of packages so that dependencies are compiled once.
BENCHED := -p volhost -p volhostd -p volhost-controller -p volhost-plugin-build -p volhost-tests

bench: BUILD := -p volhost-plugin-build
bench: plugins fixtures ## measure a release build and compare with the record: FULL=yes, ONLY=SECTION, CHECK=yes; RECORD=yes replaces it
	cargo build --release $(BENCHED) --bin volhost --bin volhostd --bench node
	cargo bench $(BENCHED) --bench node -- $(if $(FULL)$(RECORD),--full) $(if $(ONLY),--only $(ONLY)) $(if $(RECORD),--record) $(if $(CHECK),--check)

# Frame pointers, by which perf follows the calls.
PROFILING := RUSTFLAGS="$(RUSTFLAGS) -C force-frame-pointers=yes" cargo

profile: BUILD := -p volhost-plugin-build
profile: plugins fixtures ## see where the time of 10,000 volumes goes (needs perf); RECORD=yes writes docs/profile.txt
	$(PROFILING) build --profile profiling $(BENCHED) --bin volhost --bin volhostd --bench node
	$(PROFILING) bench --profile profiling $(BENCHED) --bench node -- --profile $(if $(RECORD),--record)

# What they measure with: linking another program of a release takes minutes.
MEASURED := -p volhost-tests $(addprefix --bin ,volhost volhostd volhost-controller volhost-plugin-build)

bench-kubernetes: PROFILE := release
bench-kubernetes: BUILD += $(MEASURED) --bin cluster-bench
bench-kubernetes: plugins ## measure volhost beside the stock kubelet, as root, on a release build, in 6 minutes: target/bench-kubernetes.json
	@deploy/setup.sh --cluster
	@$(OUT)/cluster-bench $(TARGET)/bench-kubernetes.json

# How much there is: NODES=50 PODS=20 VOLUMES=1 (pods of a node, claims of a pod).
NODES ?= 50
PODS ?= 20
VOLUMES ?= 1

# Whose attach/detach controller is measured: volhost, kubernetes, or both, one after the other.
CONTROLLERS ?= both
ifeq ($(filter volhost kubernetes both,$(CONTROLLERS)),)
$(error CONTROLLERS is volhost, kubernetes or both, not "$(CONTROLLERS)")
endif

bench-scale: PROFILE := release
bench-scale: BUILD += $(MEASURED) --bin cluster-scale
bench-scale: plugins ## measure controllers and agents with many nodes and volumes, as root: target/bench-scale-*.json; NODES=, PODS=, VOLUMES=, CONTROLLERS=volhost, kubernetes or both
	@deploy/setup.sh --cluster
	@for controllers in $(subst both,volhost kubernetes,$(CONTROLLERS)); do \
		$(OUT)/cluster-scale --attach-detach $$controllers $(NODES) $(PODS) $(VOLUMES) $(TARGET)/bench-scale-$$controllers.json || exit; \
	done

instructions: ## count instructions of state machine and API and compare; RECORD=yes after a change that is meant
	@cargo bench --quiet --locked -p volhost-core --bench instructions $(if $(RECORD),-- --record)
	@cargo bench --quiet --locked -p volhost-recording --bench recording-instructions $(if $(RECORD),-- --record)
	@cargo test --quiet --locked --workspace --bench api-instructions $(if $(RECORD),-- --record)

# Seconds for each target, or RUNS inputs; ONLY=NAME for one target.
TIME ?= 20
RUNS ?=
fuzz: ## run the fuzz targets: TIME=600 for ten minutes each, RUNS=20000 for the same inputs in each run, ONLY=NAME for one
	TIME=$(TIME) RUNS=$(RUNS) fuzz/run.sh $(ONLY)

lint: ## check the format and clippy, warnings denied
	cargo fmt --all --check
	cargo fmt --manifest-path fuzz/Cargo.toml --check
	cargo clippy --workspace --all-targets -- -D warnings

fmt: ## format the code
	cargo fmt --all
	cargo fmt --manifest-path fuzz/Cargo.toml

deny: ## check dependencies: licences, sources, duplicates (needs cargo-deny)
	cargo deny check bans licenses sources

# The commit in which the SDK's API was recorded last.
SEMVER_BASELINE := $(shell sed -n '/^[0-9a-f]/p' plugin-sdk/baseline)

semver: ## hold the SDK's API to what was recorded last (needs cargo-semver-checks)
	cargo semver-checks --manifest-path plugin-sdk/Cargo.toml --baseline-rev $(SEMVER_BASELINE) --all-features

semver-baseline:
	@echo $(SEMVER_BASELINE)

book: BUILD += -p volhost-book
book: binaries ## build the documentation as a book: target/book (needs mdbook)
	$(OUT)/volhost-book $(OUT)/volhost $(TARGET)/book-src/src
	cp docs/book.toml $(TARGET)/book-src/
	mdbook build $(TARGET)/book-src

docs: ## build the API documentation, warnings denied
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

clean: ## remove everything that was built
	cargo clean
	rm -rf $(PLUGINS) $(FIXTURES)
