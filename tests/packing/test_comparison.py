"""Two models on the same random input."""

import copy

import pytest
import torch

from espnet_diverse.packing.comparison import largest_difference
from espnet_diverse.runs.tasks import load_model


@pytest.mark.parametrize("run", ["tiny_run", "tiny_translation"])
def test_a_model_differs_from_one_with_other_weights_alone(run, request):
    task = "asr" if run == "tiny_run" else "mt"
    model, _ = load_model(request.getfixturevalue(run).model_dir, task=task)
    other = copy.deepcopy(model)
    assert largest_difference(model, other, task, {}) == 0.0
    with torch.no_grad():
        other.decoder.output_layer.bias[3] += 0.5
    assert 0.1 < largest_difference(model, other, task, {}) <= 0.5
