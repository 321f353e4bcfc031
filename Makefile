PYTHON ?= python3
BIN := .venv/bin
COMMAND := .venv/.command
INSTALLED := .venv/.installed
# On a control plane most is waiting, however many cores there are.
WORKERS = 3
SHARED = --numprocesses $(WORKERS) --dist loadgroup --no-loadscope-reorder
HOURS = --override-ini timeout=1200
PURE = not controlplane and not node and not systems and not browser

# What decides about pods, and what they are trusted by: nearly all of it has to be run by tests.
COVERED = webhook/admission webhook/mapping certs

# Otherwise each of the many processes of a run would compile every module, and rewrite every assertion, anew.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX = $(CURDIR)/build/pycache

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run test test-cluster test-node test-all test-systems coverage fuzz mutants check bench bench-memory \
	docs site manifests release release-parts release-image release-checksums fmt lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-18s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(COMMAND) ## serve without a cluster, send the examples through it, say what became of each; DIFF=1 shows it
	@$(BIN)/python examples/run.py $(if $(DIFF),--diff)

test coverage part-long: WORKERS = auto
test: check ## every check, and every test that needs nothing but Python
	$(BIN)/pytest $(SHARED) -m '$(PURE) and not long'

# KUBERNETES=1.30.14 for a control plane of that release; RECORD=1 records that they pass.
test-cluster: $(INSTALLED) ## on a real API server and etcd, with Helm; they are built once, by Go
	$(BIN)/python -m tests.programs
	$(BIN)/pytest $(SHARED) $(if $(RECORD),--record-release) -m 'controlplane and not long'

test-node: $(INSTALLED) ## image, chart and pods on a real node, the page in a browser; needs root and tests/node/install.sh
	$(BIN)/python -m tests.node
	$(BIN)/pytest tests/playground -m 'browser and not long' $(HOURS)
	$(BIN)/pytest tests/node -m 'node and not long and not systems' $(HOURS)

# PART=long for one of its parts, each on a machine of its own in .github/workflows/nightly.yml; PART=list names them.
KUBERNETES_RELEASES = 1.30.14 1.32.2 1.34.4 1.36.3 1.37.2
SYSTEMS_OF_MODULES = volcano koordinator kueue
PARTS = test cluster node long long-cluster long-node faults coverage \
	$(addprefix kubernetes-,$(KUBERNETES_RELEASES)) $(addprefix systems-,$(SYSTEMS_OF_MODULES))
test-all: $(addprefix part-,$(or $(PART),$(PARTS))) ## those three and all that takes hours, in parts: PART=long for one

part-list:
	@printf '%s\n' $(PARTS)

part-test: test

part-cluster part-node: part-%: test-%

part-long: $(INSTALLED)
	HYPOTHESIS_PROFILE=deep $(BIN)/pytest $(SHARED) -m '$(PURE) and (long or hypothesis)' $(HOURS)

part-long-cluster: $(INSTALLED)
	$(BIN)/python -m tests.programs --all
	HYPOTHESIS_PROFILE=deep $(BIN)/pytest $(SHARED) -m 'controlplane and long and not faults' $(HOURS)

part-long-node: $(INSTALLED)
	$(BIN)/python -m tests.node long
	$(BIN)/pytest tests/playground tests/node tests/deploy -m '(browser or node) and long and not systems' $(HOURS)

part-faults: $(INSTALLED)
	$(BIN)/python -m tests.programs --all
	$(BIN)/pytest tests/faults -m faults

part-coverage: coverage

part-kubernetes-%:
	$(MAKE) test-cluster KUBERNETES=$*

part-systems-%:
	$(MAKE) test-systems SYSTEMS=$*

coverage: $(INSTALLED) ## how much of the code pure tests run, by line and branch; at least 95 % of what decides
	$(BIN)/pytest $(SHARED) -m '$(PURE) and not long' --cov --cov-report= $(HOURS)
	$(BIN)/coverage report --skip-covered
	for part in $(COVERED); do $(BIN)/coverage report --include "$$part/*" --fail-under 95 --format total || exit 1; done

# SYSTEMS=volcano,kueue for some; SYSTEMS_BIN=FOLDER for those of an installation: docs/support.md.
test-systems: $(INSTALLED) ## other systems place the pods that the webhook writes for them; needs root and Go
	$(BIN)/python -m tests.systems
	$(BIN)/pytest tests/systems tests/node/test_systems.py -m systems --durations 0

# PODS=10000000 instead of MINUTES for a number of them; FROM=n goes on from pod n of the same seed.
fuzz: $(INSTALLED) ## MINUTES=1 SEED=1: generated pods held against every property and an oracle, in all cores
	$(BIN)/python -m tests.fuzz $(foreach name,SEED MINUTES PODS FROM,$(if $($(name)),--$(shell echo $(name) | tr A-Z a-z) $($(name))))

# SEED=2 for other ones, MUTANTS=100 for fewer, SINCE=main for what changed since a commit; with few it is the beginning of what many are.
mutants: $(INSTALLED) ## deliberate mistakes in what decides, drawn by SEED=1: how many the tests catch; an hour at most
	nice $(BIN)/python -m tests.mutants $(foreach name,SEED MUTANTS MINUTES SINCE,$(if $($(name)),--$(shell echo $(name) | tr A-Z a-z) $($(name))))

check: $(INSTALLED) ## format, lint, types, import layers, workflows
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-actions deploy/action/action.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/*.yml

# TRACE=file, PEER=https://host:port/path and PEER_PID=n reach it as environment variables.
bench: $(INSTALLED) ## measure beside an empty handler and a webhook at PEER=https://...; see benchmarks/__main__.py
	$(BIN)/python -m benchmarks

bench-memory: $(INSTALLED) ## memory under PODS=1000000 pods that are all different, each sent twice
	$(BIN)/python -m benchmarks.memory $(PODS)

docs: $(INSTALLED) ## generate the pages that are made from the code
	$(BIN)/python -m tests.faults.page > docs/reliability.md
	$(BIN)/python -m tests.gpu.page > docs/gpu.md
	$(BIN)/python -m tests.systems.page
	$(BIN)/python -m deploy.generate

site: $(INSTALLED) ## build the pages into build/site/VERSION, beside other versions, searchable without a network
	$(BIN)/python -m deploy.site

manifests: $(INSTALLED) ## generate the plain manifests from the chart
	$(BIN)/python -m deploy.generate "$$($(BIN)/python -m tests.deploy.helm)"

# TAG, PYTHON_IMAGE, PLATFORM, BUILD_FLAGS and IMAGE_REPOSITORY reach it as environment variables: CONTRIBUTING.md.
release: $(INSTALLED) ## build dist/ from the last commit: packages, chart, image, what they contain, notes, checksums
	$(BIN)/python -m deploy.release $${TAG:+--tag "$$TAG"}

release-parts: $(INSTALLED) ## the same without the image, for machines without buildah
	$(BIN)/python -m deploy.release parts

release-image: $(INSTALLED) ## the image alone, for one more platform
	$(BIN)/python -m deploy.release image

release-checksums: $(INSTALLED) ## the checksums anew, of everything in dist/
	$(BIN)/python -m deploy.release checksums

fmt: $(INSTALLED) ## format, and fix what the linter can fix
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

# For every supported Python and platform; they name no package index, so each machine uses its own.
# With extras: for `coverage[toml]` pip would take a release newer than the `coverage` that is pinned, and stop.
lock: ## resolve the dependencies anew: requirements-test.txt, and those of the image
	$(PYTHON) -m venv build/lock
	build/lock/bin/pip install --quiet uv
	build/lock/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --extra docs --extra test \
		--generate-hashes --no-strip-extras --annotation-style line \
		--custom-compile-command 'make lock' --output-file requirements-test.txt pyproject.toml
	build/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --constraint requirements-test.txt \
		--generate-hashes --no-strip-extras --annotation-style line \
		--custom-compile-command 'make lock' --output-file deploy/image/requirements.txt pyproject.toml
	echo hatchling | build/lock/bin/uv pip compile --quiet --universal --python-version 3.11 \
		--constraint requirements-test.txt --generate-hashes --no-strip-extras --annotation-style line \
		--custom-compile-command 'make lock' --output-file deploy/image/build-requirements.txt -

clean: ## remove what make and the tools leave behind
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(COMMAND): deploy/image/requirements.txt deploy/image/build-requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo 'Python 3.11 or newer is needed; name it with: make PYTHON=/path/to/python3 ...' >&2; exit 1; }
	@echo 'Installing vgpu-webhook and what it needs into .venv: a minute or two, without output.'
	@$(PYTHON) -m venv .venv
	@$(BIN)/pip install --quiet --require-hashes $(patsubst %,-r %,$(filter %requirements.txt,$^))
	@$(BIN)/pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

$(INSTALLED): $(COMMAND) requirements-test.txt
	$(BIN)/pip install --quiet --require-hashes -r requirements-test.txt
	@touch $@
