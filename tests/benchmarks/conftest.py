from pathlib import Path

import pytest

SIZE = ["encoder_conf.num_blocks=1", "encoder_conf.output_size=32", "encoder_conf.linear_units=64"]
SIZE += ["decoder_conf.num_blocks=1", "decoder_conf.linear_units=64"]


@pytest.fixture
def tiny_step(monkeypatch) -> str:
    """The name of a size of training step that is small enough for tests; the benchmarks can be imported."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    import training_step

    monkeypatch.setitem(training_step.SIZES, "1x1/32/64", SIZE)
    monkeypatch.setattr(training_step, "CHARACTERS", 60)
    return "1x1/32/64"
