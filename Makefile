# Two commands: `make test` and `make demo`. Both set up .venv first, and work again at once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Without the extras browser, hf and lhotse, the tests that need them are skipped.
EXTRAS ?= test,demo
export OMP_NUM_THREADS ?= 1
# Where it is set, every process compiles its modules anew, 4 seconds of torch and ESPnet.
export PYTHONDONTWRITEBYTECODE =

.PHONY: demo test test-cpu cluster-test lint docs trust bench clean

demo: $(VENV)/.ready  ## Train and score an SDMA transformer on a synthetic corpus like Aishell-1; 3 to 8 minutes on two cores.
	egs/aishell/asr1/run.sh --corpus synthetic

# Files in the order of their names: by default those with few tests, which are long ones, come last, and one core waits.
test: $(VENV)/.ready lint  ## All tests, at most 15 minutes on two cores.
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not trust" --ignore tests/trust
	$(BIN)/python -m pytest -m "not trust" tests/trust  # alone: they fork, which is safe in a process without threads

# Tests of results that could depend on the CPU: its kernels choose the order of a sum by the shapes of their operands.
CPU_TESTS := tests/decoding tests/nets/test_encoder.py tests/nets/test_decoder.py tests/nets/test_language_model.py \
	tests/transcription/test_bad_audio.py tests/transcription/test_recordings.py tests/test_inference.py \
	tests/bin/test_translate.py tests/bin/test_augment.py

# With the kernels of two older CPUs; in the second run every number of rows has an order of its own.
test-cpu: $(VENV)/.ready  ## Some tests again with the kernels of other CPUs, 2 minutes on two cores.
	ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2 \
		$(BIN)/python -m pytest -n 2 --dist loadfile $(CPU_TESTS)
	ONEDNN_MAX_CPU_ISA=SSE41 MKL_CBWR=COMPATIBLE ATEN_CPU_CAPABILITY=default \
		$(BIN)/python -m pytest -n 2 --dist loadfile --row-sums $(CPU_TESTS)

cluster-test: $(VENV)/.ready  ## A recipe on a Slurm of this machine, as root on Debian; installs slurm-wlm and munge.
	tests/cluster/slurm.sh tests/cluster/recipe.sh

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.ready  ## The documentation into build/docs; a link or name that leads nowhere is an error.
	$(BIN)/mkdocs build --strict

trust: $(VENV)/.ready  ## Long proofs.
	$(BIN)/python -m pytest -m "trust or counted"

bench: $(VENV)/.ready  ## Speed and memory against ESPnet, into build/bench; some 45 minutes on an idle machine.
	benchmarks/cpu.sh --output_dir build/bench $(if $(COMPARE),--compare $(COMPARE))

$(VENV)/.ready: setup.py constraints.txt
	$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(None if (3, 10) <= v <= (3, 12) else f"Python 3.10 to 3.12 is needed, not {v[0]}.{v[1]}; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python -c constraints.txt -e '.[$(EXTRAS)]'
	touch $@

clean:
	rm -rf egs/*/*/data egs/*/*/exp egs/*/*/downloads

