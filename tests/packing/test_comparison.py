"""Two models on the same random input."""

import copy

import pytest
import torch

from espnet_diverse.nets import CLASSIFIERS
from espnet_diverse.nets.models import DiverseClassificationModel
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
    with torch.no_grad():
        other.decoder.output_layer.bias[3] = float("nan")
    assert largest_difference(model, other, task, {}) == largest_difference(other, other, task, {}) == float("inf")


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_classifiers_of_texts_and_of_pairs(kind):
    encoder = {"output_size": 6, "attention_heads": 2, "num_blocks": 1}
    of_kind = encoder if kind == "transformer" else {"embed_dim": 6, "hidden_size": 5}
    size = {"pooling_width": 4, "heads": 3, "linear_units": 8, **of_kind}
    model = DiverseClassificationModel(CLASSIFIERS[kind](9, "lang", {"lang": ["de", "en"]}, **size))
    other = copy.deepcopy(model)
    assert largest_difference(model, other, "cls", {}) == 0.0
    with torch.no_grad():
        other.classifier.output.bias[1] += 0.5
    assert 0.1 < largest_difference(model, other, "cls", {}) <= 0.5
