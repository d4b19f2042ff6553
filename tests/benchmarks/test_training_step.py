"""The training step of the benchmarks: ours is what `train` runs."""

import torch

from espnet_diverse.training import cpu_layers


def test_only_our_models_have_the_layers_of_our_trainer(tiny_step, monkeypatch):
    import training_step

    dropped = []
    monkeypatch.setattr(cpu_layers, "dropout", lambda x, rate: dropped.append(rate) or x)
    contestants = ["espnet", "softmax"]
    steps = training_step.contestants(contestants, tiny_step, (2, 12), torch.device("cpu"), torch.float32)
    steps["espnet"]()
    assert not dropped
    steps["softmax"]()
    assert dropped
