"""The small models of conf/model: they are built with several attentions, learn, and the one that streams does."""

from pathlib import Path

import numpy as np
import pytest
import torch
from espnet2.utils.yaml_no_alias_safe_dump import yaml_no_alias_safe_dump

from espnet_diverse.inference import SegmentationOptions, StreamRecognizer
from espnet_diverse.runs.config import merge
from espnet_diverse.runs.config_checks import check
from espnet_diverse.runs.tasks import TASKS

NAMES = ("conformer_small", "e_branchformer_small", "streaming_small")
TOKENS = ["<blank>", "<unk>", *"abcdefghijklmnopqrstuvwxyz", "<sos/eos>"]


def build(name, attention):
    """The model of two fragments, with random weights, and its arguments."""
    config = merge([f"model/{name}", f"attention/{attention}"])
    check(TASKS["asr"], config)
    parser = TASKS["asr"].get_parser()
    parser.set_defaults(**config, token_type="char", normalize=None)
    args = parser.parse_args([])
    args.token_list = TOKENS
    torch.manual_seed(0)
    return TASKS["asr"].build_model(args), args


@pytest.mark.parametrize("attention", ["softmax", "sdma"])
@pytest.mark.parametrize("name", NAMES)
def test_small_models_learn(name, attention):
    model, _ = build(name, attention)
    assert 2e6 < sum(each.numel() for each in model.parameters()) < 8e6
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    speech, text = torch.randn(2, 24_000), torch.randint(2, 28, (2, 6))
    batch = (speech, torch.tensor([24_000, 20_000]), text, torch.tensor([6, 5]))
    losses = []
    for _ in range(6):
        optimizer.zero_grad()
        loss, _, _ = model(*batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert np.isfinite(losses).all() and losses[-1] < losses[0]


def test_the_model_that_streams_streams(tmp_path: Path):
    model, args = build("streaming_small", "softmax")
    model.ctc.ctc_lo.weight.data *= 6
    (tmp_path / "config.yaml").write_text(yaml_no_alias_safe_dump(vars(args), indent=1, sort_keys=False))
    torch.save(model.state_dict(), tmp_path / "valid.acc.ave.pth")
    online = StreamRecognizer(tmp_path, segmentation=SegmentationOptions("none"), options={"beam_size": 2})
    samples = 0.1 * np.random.default_rng(0).standard_normal(64_000)
    results = list(online.stream(np.array_split(samples, 20)))
    assert len(results) > 1 and results[-1].is_final and results[0].heard < 3.0
