"""A model computes the same from kept features as from samples."""

import copy

import pytest
import torch
from references.whisper import write_whisper

from espnet_diverse.conditions import CONDITIONS
from espnet_diverse.nets.frontends.kept_features import PARTS, ReadsKeptFeatures
from espnet_diverse.nets.models import DiverseASRModel, DiverseMTModel, DiverseSTModel
from espnet_diverse.runs.packed.whisper import write_run
from espnet_diverse.runs.tasks import load_model


def test_models_of_speech_read_them():
    assert DiverseASRModel.keeps == ("encoder", "frontend") == tuple(PARTS)
    assert DiverseSTModel.keeps == ("frontend",) and not issubclass(DiverseMTModel, ReadsKeptFeatures)


@pytest.mark.parametrize("part", PARTS)
def test_the_loss_is_that_of_samples(part, tmp_path):
    (tmp_path / "run").mkdir()
    write_run(write_whisper(tmp_path / "whisper"), tmp_path / "run")
    model, _ = load_model(tmp_path / "run")
    model.train()
    lengths = torch.tensor([9000, 5000])
    batch = {"speech": torch.randn(2, 9000), "speech_lengths": lengths}
    text = {"text": torch.randint(5, 90, (2, 4)), "text_lengths": torch.tensor([4, 3])}
    text |= {condition: torch.tensor([[0], [2]]) for condition in CONDITIONS if condition in model.conditions}
    expected, stats, _ = model(**copy.deepcopy(batch | text))
    with torch.no_grad():
        compute = model.encode if part == "encoder" else model._extract_feats
        features, frames = compute(**batch)
    model.kept_part = part
    model.frontend.forward = None  # which must not be called
    found, again, _ = model(speech=features, speech_lengths=frames, **copy.deepcopy(text))
    torch.testing.assert_close(found, expected)
    assert stats.keys() == again.keys()
    found.sum().backward()
    gradients = {name.partition(".")[0] for name, each in model.named_parameters() if each.grad is not None}
    assert gradients == ({"decoder"} if part == "encoder" else {"encoder", "decoder"})
