# The chores. `make demo` and `make test` are all that a newcomer needs.

VENV := target/venv
CARGO ?= cargo
# Cargo.lock says which versions are built; a build never changes it.
LOCKED := --locked
# Many tests wait for processes and clocks, so more of them run than there are cores.
TEST_THREADS ?= $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN))))

.PHONY: help demo cluster-demo up test check audit sbom package clients clients-all page build sim torture bench doc clean

help: ## What there is to make
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

demo: build ## Start a node, feed 20,000 mails of 300 people, run seven telling queries and 60 questions
	@scripts/models minilm
	@target/release/millrace demo

cluster-demo: build ## etcd and five nodes: mails are fed, a node is killed, one is added, one retires
	@scripts/prerequisites etcd
	@scripts/cluster_demo.py

up: build ## Start a server on ports 8080 and 19071 and leave it running
	@target/release/millrace serve --data-dir $${MILLRACE_DATA_DIR:-data} --app examples/mail

build: ## Build the binary, and the one of the benchmarks, optimised
	@scripts/prerequisites
	@scripts/onnxruntime
	@$(CARGO) build $(LOCKED) --release -p millrace-server -p millrace-bench

test: check clients ## Everything

check: ## Format, clippy, rustdoc (all without warnings), dependencies and the Rust tests
	@scripts/prerequisites etcd python
	@scripts/onnxruntime
	@scripts/audit
	$(CARGO) fmt --all --check
	$(CARGO) clippy $(LOCKED) --workspace --all-targets --quiet -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc $(LOCKED) --workspace --no-deps --quiet
	RUST_TEST_THREADS=$(TEST_THREADS) CARGO=$(CARGO) scripts/tests.py

audit: ## Licences, sources and known vulnerabilities of all dependencies, as far as the tools are there
	@scripts/audit

sbom: ## What the binary is made of, as target/millrace.cdx.json (CycloneDX)
	@mkdir -p target
	@scripts/sbom.py > target/millrace.cdx.json
	@echo target/millrace.cdx.json

package: build ## A tar.gz, a .deb, debug symbols, components and checksums, in target/package
	@scripts/package

# One of the Rust tests brings the binary with the features that they all are built with: `cargo build` would compile
# most of it a second time.
clients: $(VENV)/ready ## The binary from outside: the Vespa CLI and pyvespa, unchanged, and tables of what applications can say
	$(CARGO) test $(LOCKED) --workspace --quiet --no-run --test overload
	MILLRACE_BIN=target/debug/millrace $(VENV)/bin/pytest -q tests

clients-all: build ## Frameworks, clients and shippers of Elasticsearch, the conformance kit of MCP, and from checkouts others' tests and Vespa's samples and pages (PYVESPA=, HAYSTACK=, OPENSEARCHPY=, QUICKWIT=, SAMPLES=, PAGES=)
	@scripts/prerequisites python
	python3 -m venv $(VENV)-suites
	$(VENV)-suites/bin/pip install -q --require-hashes -r tests/suites/requirements.txt
	python3 -m venv $(VENV)-frameworks
	$(VENV)-frameworks/bin/pip install -q -r tests/suites/frameworks.txt
	MILLRACE_BIN=target/release/millrace $(VENV)-frameworks/bin/pytest -q tests/suites/frameworks.py
	python3 -m venv $(VENV)-haystack
	$(VENV)-haystack/bin/pip install -q -r tests/suites/haystack_store.txt
	MILLRACE_BIN=target/release/millrace $(VENV)-haystack/bin/pytest -q tests/suites/haystack_store.py
	scripts/elastic_clients.py
	scripts/mcp_conformance.py
	[ -z "$(PYVESPA)$(HAYSTACK)$(OPENSEARCHPY)$(QUICKWIT)" ] || PYVESPA=$(PYVESPA) HAYSTACK=$(HAYSTACK) OPENSEARCHPY=$(OPENSEARCHPY) QUICKWIT=$(QUICKWIT) $(VENV)-suites/bin/python scripts/suites.py
	[ -z "$(SAMPLES)" ] || PATH=$(CURDIR)/$(VENV)-suites/bin:$$PATH SAMPLES=$(SAMPLES) scripts/samples.py
	[ -z "$(PAGES)" ] || PATH=$(CURDIR)/$(VENV)-suites/bin:$$PATH SAMPLES=$(PAGES) scripts/samples.py --pages

page: $(VENV)/ready build ## The page at / in a headless browser, and the pictures of the documentation
	@scripts/prerequisites chromium
	MILLRACE_BIN=target/release/millrace MILLRACE_PICTURES=docs/pictures $(VENV)/bin/pytest -q tests/page

$(VENV)/ready: tests/clients/requirements.txt
	@scripts/prerequisites python
	python3 -m venv $(VENV)
	$(VENV)/bin/pip install -q --require-hashes -r $<
	@touch $@

doc: ## The documentation of all crates
	$(CARGO) doc $(LOCKED) --workspace --no-deps

SEED ?= 1
COUNT ?= 1

sim: ## A cluster from one seed, with all that happens in it (SEED=7), or from many (SEED=1 COUNT=10000)
	@$(CARGO) run $(LOCKED) --quiet -p millrace-sim -- $(SEED) $(COUNT)

MINUTES ?= 1

torture: build ## Processes of a cluster in networks of their own, killed, frozen and cut off while clients remember every answer (MINUTES=10)
	@scripts/prerequisites etcd
	@scripts/torture.py $(MINUTES)

bench: build ## All benchmarks, each beside its limit
	target/release/millrace-bench all

clean: ## Remove what was built
	$(CARGO) clean
