# make demo and make test are all that a newcomer needs; each installs what is missing (see scripts/install_dependencies.sh).
BUILD ?= build/release
JOBS ?= $(shell nproc)
CMAKE_OPTIONS ?=
CONFIGURE = cmake -S . -B $(BUILD) -G Ninja -DCMAKE_BUILD_TYPE=Release $(CMAKE_OPTIONS)
INSTALL = bash scripts/install_dependencies.sh

.PHONY: demo build test python python-torch python-vllm python-sglang bench traffic replay format lint site clean

demo: build
	$(BUILD)/tools/cli/trunkline run data/demo.jsonl --check

build:
	$(INSTALL) build
	$(CONFIGURE)
	cmake --build $(BUILD) -j $(JOBS) --target trunkline_program trunkline_c

test:
	$(INSTALL) build test python
	$(CONFIGURE) -DTRUNKLINE_BUILD_TESTS=ON -DTRUNKLINE_BUILD_BENCH=ON
	cmake --build $(BUILD) -j $(JOBS)
	ctest --test-dir $(BUILD) --output-on-failure -j $(JOBS)
	bash scripts/python_tests.sh

# The Python package alone: the wheel, in an environment of its own.
python:
	$(INSTALL) build python
	bash scripts/python_tests.sh

# The same with torch, whose tests the others skip: 2.7 GB to download, 4.8 GB on disk, kept in build/python/venv-torch.
python-torch:
	$(INSTALL) build python
	TRUNKLINE_TORCH=1 bash scripts/python_tests.sh

# The vLLM plug-in in a real vLLM, without a GPU: 3 GB to download, 8 GB on disk, kept in build/python. VLLM=0.33.0 takes
# another release.
python-vllm:
	$(INSTALL) build python
	bash scripts/engine_tests.sh vllm $(VLLM)

# The same of the SGLang plug-in, and requests that SGLang's own scheduler serves on the CPU. SGLANG=0.5.23.
python-sglang:
	$(INSTALL) build python
	bash scripts/engine_tests.sh sglang $(SGLANG)

bench:
	$(INSTALL) build
	$(CONFIGURE) -DTRUNKLINE_BUILD_BENCH=ON
	cmake --build $(BUILD) -j $(JOBS)
	python3 bench/run.py --program $(BUILD)/tools/cli/trunkline
	$(BUILD)/bench/planner_bench data > bench/results/cpu/planner.jsonl
	$(BUILD)/bench/live_bench data > bench/results/cpu/live.jsonl
	$(BUILD)/bench/capi_bench > bench/results/cpu/capi.jsonl
	python3 bench/report.py

# The papers' traffic figures: plans alone, some seconds.
traffic:
	$(INSTALL) build
	$(CONFIGURE) -DTRUNKLINE_BUILD_BENCH=ON
	cmake --build $(BUILD) -j $(JOBS) --target paper_traffic
	for table in deft pat fasttree codec; do \
	  $(BUILD)/bench/paper_traffic $$table data > bench/results/traffic/$$table.jsonl || exit 1; done
	python3 bench/traffic_report.py

# Recorded traces through a serving loop; TRACES is the folder of the full ones, which are not part of the repository.
replay:
	$(INSTALL) build
	$(CONFIGURE)
	cmake --build $(BUILD) -j $(JOBS) --target trunkline_program
	python3 bench/replay.py --program $(BUILD)/tools/cli/trunkline "$(TRACES)"
	python3 bench/replay_report.py

format:
	$(INSTALL) ci
	bash scripts/lint.sh --fix

lint:
	$(INSTALL) ci
	bash scripts/lint.sh

# The pages of the repository as static HTML, in build/site; looked at in a browser where Chromium is installed.
site:
	$(INSTALL) python
	bash scripts/build_site.sh

clean:
	rm -rf build
