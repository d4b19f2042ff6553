# Two commands: `make test` and `make demo`. Both set up .venv first, and work again at once.
# tools/find_python.sh finds an interpreter of these versions, the first one preferred, unless PYTHON= gives one.
PYTHON_VERSIONS ?= 3.12 3.13
unexport PYTHON  # to the benchmarks it is an environment with all packages
VENV := .venv
BIN := $(VENV)/bin
EXTRAS ?= test,demo
ALL_EXTRAS := test,demo,browser,hf,lhotse,sherpa,ctranslate2
SKIPPED := build/skipped.txt
DEMO := egs/aishell/asr1
export OMP_NUM_THREADS ?= 1
# Where it is set, every process compiles its modules, 4 seconds for torch and ESPnet.
export PYTHONDONTWRITEBYTECODE =

.PHONY: demo test test-skipped recipes test-cpu test-3.13 test-version gpu-check cluster-test lint docs trust release \
	bench clean

demo: $(VENV)/.ready  ## Train and score an SDMA transformer on a synthetic corpus like Aishell-1; about 4 minutes on two cores.
	$(DEMO)/run.sh --corpus synthetic --nproc 2
	@echo "See it: $(BIN)/espnet-diverse demo $(DEMO)/exp/synthetic_small_sdma_demo --examples $(DEMO)/data/synthetic/test"

# Files in the order of their names: by default those with few tests, which are long ones, come last, and one core waits.
test: $(VENV)/.ready lint  ## All tests but those of `make recipes`, 9 to 15 minutes on two idle cores.
	rm -f $(SKIPPED)
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not trust and not recipes" --ignore tests/trust \
		--skipped $(SKIPPED)
	$(BIN)/python -m pytest -m "not trust" tests/trust --skipped $(SKIPPED)  # alone: they fork, which needs no threads

test-skipped: $(VENV)/.ready  ## What `make test` skipped, with all extras; install a Chromium, curl and nginx first.
	$(BIN)/uv pip install --quiet --python $(BIN)/python -c constraints.txt -e '.[$(ALL_EXTRAS)]'
	if [ -s $(SKIPPED) ]; then $(BIN)/python -m pytest @$(SKIPPED); fi

recipes: $(VENV)/.ready  ## What `make test` leaves out: recipes, benchmarks, clusters, several processes; 14 minutes on two cores.
	$(BIN)/python -m pytest -n 2 --dist loadfile -m recipes --ignore tests/trust

# Tests of results that could depend on the CPU: its kernels choose the order of a sum by the shapes of their operands.
CPU_TESTS := tests/decoding tests/nets/test_encoder.py tests/nets/test_decoder.py tests/nets/test_language_model.py \
	tests/transcription/test_bad_audio.py tests/transcription/test_recordings.py tests/test_inference.py \
	tests/bin/use/test_translate.py tests/bin/data/test_augment.py

# With the kernels of two older CPUs; in the second run every number of rows has an order of its own.
test-cpu: $(VENV)/.ready  ## Some tests again with the kernels of other CPUs, 2 minutes on two cores.
	ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2 \
		$(BIN)/python -m pytest -n 2 --dist loadfile $(CPU_TESTS)
	ONEDNN_MAX_CPU_ISA=SSE41 MKL_CBWR=COMPATIBLE ATEN_CPU_CAPABILITY=default \
		$(BIN)/python -m pytest -n 2 --dist loadfile --row-sums $(CPU_TESTS)

# What a version of Python can break: the wheel, imports, ESPnet's classes, a recipe from end to end.
VERSION_TESTS := tests/test_wheel.py tests/test___main__.py tests/registration tests/nets \
	tests/recipes/test_end_to_end.py

test-3.13:  ## Some tests again with Python 3.13, in .venv-3.13; 3 minutes on two cores once that is set up.
	@$(MAKE) --no-print-directory VENV=.venv-3.13 PYTHON_VERSIONS=3.13 test-version

test-version: $(VENV)/.ready
	$(BIN)/python -m pytest -n 2 --dist loadfile $(VERSION_TESTS)

gpu-check: $(VENV)/.ready  ## How often the host waits for a GPU, on a machine without one; 3 minutes, needs a C compiler.
	PYTHONPATH=tests $(BIN)/python -m gpu_check

cluster-test: $(VENV)/.ready  ## A recipe on a Slurm of this machine, as root on Debian; installs slurm-wlm and munge.
	tests/cluster/slurm.sh tests/cluster/recipe.sh

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.ready  ## The documentation into build/docs; a link or name that leads nowhere is an error.
	$(BIN)/python egs/reproduction_page.py --check
	$(BIN)/mkdocs build --strict

trust: $(VENV)/.ready  ## Long proofs.
	$(BIN)/python -m pytest -m "trust or counted"

release: $(VENV)/.ready  ## The wheel of the commit and its bill of materials (CycloneDX) into dist; the same bytes each time.
	PYTHON=$(BIN)/python tools/release.sh dist

bench: $(VENV)/.ready  ## Speed and memory against ESPnet, into build/bench; more than an hour on an idle machine.
	benchmarks/cpu.sh --output_dir build/bench $(if $(COMPARE),--compare $(COMPARE))

# With HASHES=1, as in `make demo HASHES=1`, pip and uv refuse a file whose SHA-256 is not in hashes.txt.
$(VENV)/.ready: setup.py constraints.txt hashes.txt $(VENV)/pyvenv.cfg
ifdef HASHES
	sed -n '/^uv==/,/[^\\]$$/p' hashes.txt > $(VENV)/uv.txt
	$(BIN)/python -m pip install --quiet --no-deps --require-hashes -r $(VENV)/uv.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r hashes.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .
else
	$(BIN)/python -m pip install --quiet -c constraints.txt uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python -c constraints.txt -e '.[$(EXTRAS)]'
endif
	touch $@

# Run each time: it names the interpreter, and replaces an environment whose interpreter is missing or unfit.
$(VENV)/pyvenv.cfg: FORCE
	@PYTHON='$(PYTHON)' tools/make_venv.sh $(VENV) $(PYTHON_VERSIONS)

FORCE:

clean:
	rm -rf build dist

