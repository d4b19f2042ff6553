"""The language model at the softmax-equivalent setting equals ESPnet's."""

import torch
from references.espnet_twin import pair

from espnet_diverse.nets import LANGUAGE_MODELS
from espnet_diverse.scope import scope


def test_language_model_equals_espnet():
    options = {"embed_unit": 8, "att_unit": 16, "head": 2, "unit": 24, "layer": 2}
    reference, net = pair(LANGUAGE_MODELS["diverse_transformer"], 11, **options)
    ys = torch.randint(1, 11, (2, 6))
    with scope(keep_attention=True):
        assert torch.equal(net(ys, None)[0], reference(ys, None)[0])
